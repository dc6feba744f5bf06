// A selection of the elements of C: pairs below the diagonal are cut off before they are multiplied; of a panel's
// records, those that keep an element are written.
#include "kernels/blocks/selection.hpp"

#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/record_output.cuh"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

// Grid: one thread per block of A.
// Work: two binary searches: its row of A, and the first column of its row of B that is not below that row.
// Memory: contiguous but for the searches.
__global__ void cut_to_triangle(CompressedView a, std::uint64_t count, CompressedView b, std::uint32_t* b_row_index,
                                std::uint32_t* offsets) {
  for_each_item(count, [=](std::uint64_t p) {
    const std::uint32_t b_row = b_row_index[p];
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    if (b_row != kNoRow) {
      const auto row = upper_bound(a.offsets, 0, a.num_rows, static_cast<std::uint32_t>(p)) - 1;
      end = b.offsets[b_row + 1];
      begin = static_cast<std::uint32_t>(lower_bound(b.columns, b.offsets[b_row], end, a.rows[row]));
    }
    offsets[2 * p] = begin;
    offsets[2 * p + 1] = end;
    b_row_index[p] = begin == end ? kNoRow : static_cast<std::uint32_t>(2 * p);
  });
}

/// An element of a record: its value, and where it lies.
struct Element {
  std::uint32_t value;
  bool is_below;  // the diagonal
  bool is_on;     // the diagonal

  __device__ Element(const std::uint32_t* record, std::uint32_t m, std::uint32_t e)
      : value(record[2 + e]), is_below(record[0] > record[1]), is_on(false) {
    if (record[0] != record[1]) return;
    is_below = e % m < e / m;
    is_on = e % m == e / m;
  }

  /// Whether the triangle leaves anything of it.
  [[nodiscard]] __device__ bool counts(const Selection& selection) const {
    return value != 0 && !(selection.upper_triangle && is_below);
  }
  /// The value, or 0 if it is dropped for where it lies or how small it is.
  [[nodiscard]] __device__ std::uint32_t kept(const Selection& selection) const {
    const bool is_kept = counts(selection) && !(selection.no_diagonal && is_on) && value >= selection.at_least;
    return is_kept ? value : 0;
  }
};

__device__ inline std::uint32_t* record_at(const PanelRecords& panel, std::uint64_t x) {
  return panel.records + x * (2 + panel.m * panel.m);
}

/// First record whose block row is not below `wanted`, by a probe of each lane at a time.
/// Threads: one whole warp.
__device__ inline std::uint32_t first_record_of(const PanelRecords& panel, std::uint32_t wanted) {
  std::uint32_t begin = 0;
  std::uint32_t end = *panel.num_records;
  while (begin != end) {
    const std::uint32_t piece = (end - begin - 1) / 32 + 1;  // a lane looks at the last record of one
    const std::uint64_t probe = std::uint64_t{begin} + std::uint64_t{threadIdx.x % 32} * piece + (piece - 1);
    const bool is_below = probe < end && *record_at(panel, probe) < wanted;
    const std::uint64_t below = __popc(__ballot_sync(~0u, is_below));
    begin = static_cast<std::uint32_t>(min(std::uint64_t{end}, begin + below * piece));
    end = piece == 1 ? begin : static_cast<std::uint32_t>(min(std::uint64_t{end}, std::uint64_t{begin} + piece));
  }
  return begin;
}

constexpr std::uint32_t kCachedElements = 2048;
constexpr std::uint32_t kDigits = 256;
static_assert(kDigits == kItemThreads);

/// Shared memory of a CTA that looks for the largest elements of a row.
struct RowSearch {
  std::uint32_t ends[2];                   // records of the block row
  std::uint32_t cached[kCachedElements];   // elements of a short row
  std::uint32_t largest_of[kItemThreads];  // of the elements of each thread
  std::uint32_t counts[kDigits];           // elements by their digit
  std::uint32_t of_warp[kItemWarps];       // ties
  std::uint32_t num_elements;              // that are not zero
  std::uint32_t largest;
  std::uint32_t digit;  // of the last element that is kept
  std::uint32_t above;  // elements with larger digits
  bool is_all;          // all elements with the digit are kept
};

/// An element row of a panel: element x of it in the order of columns. M: 0 = m at run time.
template <std::uint32_t M>
struct ElementRow {
  const PanelRecords& panel;
  const Selection& selection;
  std::uint32_t first;  // record
  std::uint32_t row;    // of the block
  std::uint32_t length;
  const std::uint32_t* cached;  // [length], shared; or null

  [[nodiscard]] __device__ std::uint32_t m() const { return M != 0 ? M : panel.m; }
  [[nodiscard]] __device__ std::uint32_t element(std::uint32_t x) const { return row * m() + x % m(); }
  [[nodiscard]] __device__ std::uint32_t* record(std::uint32_t x) const {
    return panel.records + (std::uint64_t{first} + x / m()) * (2 + m() * m());
  }
  [[nodiscard]] __device__ std::uint32_t value(std::uint32_t x) const {
    return cached != nullptr ? cached[x] : Element(record(x), m(), element(x)).kept(selection);
  }
};

/// Finds the digit of the element that has `left` - 1 larger ones before it. Threads: one whole warp.
__device__ inline void find_digit(RowSearch& search, std::uint32_t left) {
  constexpr std::uint32_t kPerLane = kDigits / 32;
  std::uint32_t digit = kDigits - 1 - threadIdx.x % 32 * kPerLane;
  std::uint32_t own = 0;
  for (std::uint32_t d = 0; d < kPerLane; ++d) own += search.counts[digit - d];
  const std::uint32_t through = inclusive_warp_sum(own);
  std::uint32_t above = through - own;
  if (through < left || above >= left) return;
  for (; above + search.counts[digit] < left; --digit) above += search.counts[digit];
  search.digit = digit;
  search.above = above;
  search.is_all = above + search.counts[digit] == left;
}

/// What stays of some values: all above `least`, and the first `ties` of those that equal it.
struct Threshold {
  std::uint32_t least;
  std::uint32_t ties;
};

/// The threshold that leaves `keep` of the values [0, length).
/// Work: a radix select from the highest digit on, of values from `bound` on alone. Values: as many are not below it
///       and not zero, at least.
/// Threads: all of the CTA.
template <class Value>
__device__ Threshold find_threshold(const Value& value, std::uint32_t length, std::uint32_t keep, std::uint32_t bound,
                                    RowSearch& search) {
  std::uint32_t left = keep;  // of those with these digits
  std::uint32_t digits = 0;
  std::uint32_t shift = (31 - __clz(static_cast<int>(search.largest))) / 8 * 8;
  while (true) {
    search.counts[threadIdx.x] = 0;
    __syncthreads();  // they are clear
#pragma unroll 4
    for (std::uint32_t x = threadIdx.x; x < length; x += kItemThreads) {
      const std::uint32_t one = value(x);
      if (one < bound || std::uint64_t{one} >> (shift + 8) != digits) continue;
      atomicAdd(&search.counts[one >> shift & (kDigits - 1)], 1u);  // threads share digits
    }
    __syncthreads();  // they are complete
    if (threadIdx.x < 32) find_digit(search, left);
    __syncthreads();  // the digit is known
    digits = digits << 8 | search.digit;
    left -= search.above;
    if (search.is_all) return {.least = max(digits << shift, bound), .ties = length};
    if (shift == 0) return {.least = digits, .ties = left};
    shift -= 8;
  }
}

/// Makes all elements zero but the `keep` largest. Returns how many that are not zero are dropped.
/// Work: the threshold, of a long row first that of the largest elements of the threads, which leaves few to be
///       counted; then a pass in the order of columns.
/// Threads: all of the CTA, which have nothing of an earlier row left to read.
template <std::uint32_t M>
__device__ std::uint32_t keep_largest_of(ElementRow<M> row, RowSearch& search) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t keep = row.selection.keep;
  if (threadIdx.x == 0) search.num_elements = search.largest = 0;
  __syncthreads();  // they are clear
  std::uint32_t num_elements = 0;
  std::uint32_t largest = 0;
#pragma unroll 4
  for (std::uint32_t x = threadIdx.x; x < row.length; x += kItemThreads) {
    const std::uint32_t value = row.value(x);
    if (row.length <= kCachedElements) search.cached[x] = value;
    num_elements += value != 0 ? 1 : 0;
    largest = max(largest, value);
  }
  search.largest_of[threadIdx.x] = largest;
  num_elements = warp_total(num_elements);
  const std::uint32_t of_warp = warp_max(largest);
  if (lane == 0 && num_elements != 0) {
    atomicAdd(&search.num_elements, num_elements);  // of each warp
    atomicMax(&search.largest, of_warp);
  }
  const auto num_threads = static_cast<std::uint32_t>(__syncthreads_count(largest != 0));  // complete
  num_elements = search.num_elements;
  if (num_elements <= keep) return 0;
  std::uint32_t bound = 1;
  if (row.length <= kCachedElements) {
    row.cached = search.cached;
  } else if (num_threads >= keep) {
    bound = find_threshold([&](std::uint32_t x) { return search.largest_of[x]; }, kItemThreads, keep, 1, search).least;
  }
  const auto [least, most_ties] =
      find_threshold([&](std::uint32_t x) { return row.value(x); }, row.length, keep, bound, search);
  std::uint32_t ties_before = 0;
#pragma unroll 1
  for (std::uint32_t begin = 0; begin < row.length; begin += kItemThreads) {
    const std::uint32_t x = begin + threadIdx.x;
    const std::uint32_t value = x < row.length ? row.value(x) : 0;
    const bool is_tie = value == least;
    const auto ties = static_cast<std::uint32_t>(__syncthreads_count(is_tie ? 1 : 0));
    bool is_dropped = value < least || (is_tie && ties_before >= most_ties);
    if (ties_before < most_ties && ties_before + ties > most_ties) {  // all threads alike, once for each row
      const std::uint32_t ties_of_warp = __ballot_sync(~0u, is_tie);
      if (lane == 0) search.of_warp[threadIdx.x / 32] = __popc(ties_of_warp);
      __syncthreads();  // ties of all warps are known
      std::uint32_t rank = ties_before + __popc(ties_of_warp & ((1u << lane) - 1));
      for (std::uint32_t w = 0; w < threadIdx.x / 32; ++w) rank += search.of_warp[w];
      is_dropped = value < least || (is_tie && rank >= most_ties);
    }
    ties_before += ties;
    if (value != 0 && is_dropped) row.record(x)[2 + row.element(x)] = 0;
  }
  return num_elements - keep;
}

// Grid: one CTA per block row of the panel.
// Work: two warps find the row's records; then one element row after the other.
// Memory: records of a row follow each other; an element row of up to kCachedElements is read once.
template <std::uint32_t M>
__global__ void __launch_bounds__(kItemThreads)
    keep_largest(PanelRecords panel, Selection selection, unsigned long long* num_dropped) {
  __shared__ RowSearch search;
  const std::uint32_t warp = threadIdx.x / 32;
  if (warp < 2) {
    const std::uint32_t found = first_record_of(panel, panel.rows[blockIdx.x] + warp);
    if (threadIdx.x % 32 == 0) search.ends[warp] = found;
  }
  __syncthreads();  // both ends are known
  const std::uint32_t length = (search.ends[1] - search.ends[0]) * panel.m;
  if (length <= selection.keep) return;
  unsigned long long dropped = 0;
  for (std::uint32_t r = 0; r < panel.m; ++r) {
    const ElementRow<M> row{
        .panel = panel, .selection = selection, .first = search.ends[0], .row = r, .length = length, .cached = nullptr};
    dropped += keep_largest_of<M>(row, search);
    __syncthreads();  // the next row may overwrite what was searched
  }
  if (threadIdx.x == 0 && dropped != 0) atomicAdd(num_dropped, dropped);  // of each CTA
}

/// Records per CTA: of 8,192 words, about, and as many as it has flags for.
std::uint32_t records_per_cta(std::uint32_t m) {
  return std::clamp(8192 / (m * m + 2), 16u, CBlockFlags::kMaxCBlocks);
}

// Grid: one CTA per per_cta records, for as many as there can be; they are handed out in result order as CTAs start.
// Work: a thread per element flags the records that keep one; look-back; a thread per word of the records written.
//       M: 0 = m at run time.
// Memory: contiguous reads, the second time from cache; contiguous writes.
template <std::uint32_t M>
__global__ void __launch_bounds__(kItemThreads)
    write_kept(PanelRecords panel, Selection selection, std::uint32_t per_cta, unsigned long long* num_dropped,
               RecordOutput out) {
  __shared__ CBlockFlags flags;
  __shared__ std::uint16_t order[CBlockFlags::kMaxCBlocks];
  __shared__ std::uint32_t dropped_here;
  const std::uint32_t m = M != 0 ? M : panel.m;
  if (threadIdx.x == 0) {
    flags.cta = take_cta_number(out);
    dropped_here = 0;
  }
  for (std::uint32_t w = threadIdx.x; w < CBlockFlags::kMaxCBlocks / 32; w += kItemThreads) flags.words[w] = 0;
  __syncthreads();  // the number is drawn, flags are clear
  const std::uint64_t first = std::uint64_t{flags.cta} * per_cta;
  const std::uint64_t all = *panel.num_records;
  const auto count = static_cast<std::uint32_t>(first < all ? min(std::uint64_t{per_cta}, all - first) : 0);
  const std::uint32_t num_elements = count * m * m;
  std::uint32_t dropped = 0;
  for (std::uint32_t begin = 0; begin < num_elements; begin += kItemThreads) {
    const std::uint32_t x = begin + threadIdx.x;
    const std::uint32_t record = x / (m * m);
    bool is_kept = false;
    if (x < num_elements) {
      const Element element(record_at(panel, first + record), m, x % (m * m));
      is_kept = element.kept(selection) != 0;
      dropped += element.counts(selection) && !is_kept ? 1 : 0;
    }
    if constexpr (M == 1) {
      const std::uint32_t word = __ballot_sync(~0u, is_kept);
      if (x % 32 == 0 && word != 0) flags.words[x / 32] = word;
    } else {
      const std::uint32_t bit = 1u << record % 32;
      if (is_kept && (flags.words[record / 32] & bit) == 0) {
        atomicOr(&flags.words[record / 32], bit);  // threads share words; a stale read costs one atomic
      }
    }
  }
  dropped = warp_total(dropped);
  if (threadIdx.x % 32 == 0 && dropped != 0) atomicAdd(&dropped_here, dropped);  // of each warp
  __syncthreads();                                                               // flags and numbers are complete
  if (threadIdx.x == 0 && dropped_here != 0) {
    atomicAdd(num_dropped, static_cast<unsigned long long>(dropped_here));  // of each CTA
  }
  if (threadIdx.x < 32) find_output_offset(flags, count, out, gridDim.x);
  __syncthreads();  // the output offset is known
  order_records(flags, count, order, kItemThreads);
  __syncthreads();  // the order is complete
  const auto value_at = [&](std::uint32_t x, std::uint32_t e) {
    return Element(record_at(panel, first + x), m, e).kept(selection);
  };
  const auto pair_at = [&](std::uint32_t x, std::uint32_t e) {
    return uint2{value_at(x, 2 * e), value_at(x, 2 * e + 1)};
  };
  const auto index_of = [&](std::uint32_t x) {
    const std::uint32_t* const record = record_at(panel, first + x);
    return uint2{record[0], record[1]};
  };
  write_records<M == 1 ? 0 : M>(flags, order, m, out, RecordContent{value_at, pair_at, index_of});
}

}  // namespace

void launch_cut_to_triangle(const CompressedView& a, std::uint64_t count, const CompressedView& b,
                            std::uint32_t* b_row_index, std::uint32_t* offsets, cudaStream_t stream) {
  if (count == 0) return;
  cut_to_triangle<<<item_grid(count), kItemThreads, 0, stream>>>(a, count, b, b_row_index, offsets);
  check_launch("cut_to_triangle");
}

std::uint64_t num_kept_states(std::uint64_t max_records, std::uint32_t m) {
  return max_records / records_per_cta(m) + 2;
}

void launch_write_kept(const PanelRecords& panel, const Selection& selection, unsigned long long* num_dropped,
                       const RecordOutput& out, cudaStream_t stream) {
  if (panel.max_records == 0) {
    launch_no_records(out, stream);
    return;
  }
  if (selection.keep != 0) {
    for_block_side<1>(panel.m, [&](auto side) {
      keep_largest<decltype(side)::value><<<panel.num_rows, kItemThreads, 0, stream>>>(panel, selection, num_dropped);
    });
    check_launch("keep_largest");
  }
  const std::uint32_t per_cta = records_per_cta(panel.m);
  const auto num_ctas = static_cast<unsigned>((panel.max_records - 1) / per_cta + 1);
  check(cudaMemsetAsync(out.look_back, 0, (num_ctas + std::uint64_t{1}) * sizeof(std::uint64_t), stream),
        "clear look-back states");
  for_block_side<1, 4, 8>(panel.m, [&](auto side) {
    write_kept<decltype(side)::value>
        <<<num_ctas, kItemThreads, 0, stream>>>(panel, selection, per_cta, num_dropped, out);
  });
  check_launch("write_kept");
}

}  // namespace spmm::kernels
