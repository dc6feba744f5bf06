// Raw file records -> sort keys and packed elements.
#include <algorithm>

#include "kernels/block_side.cuh"
#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/warp.cuh"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kHeadElements = 4;  // i and j, as long as four elements

/// Bytes of records that a CTA stages, about; four records at least, which are a whole number of 64-bit words.
constexpr std::uint32_t kStagedBytes = 16u << 10;

std::uint32_t records_per_cta(std::uint32_t m) {
  return std::max(1u, kStagedBytes / (2 * (kHeadElements + m * m)) / 4) * 4;
}

/// Copies `count` elements to shared memory. Shapes: from, to [count], 8-byte aligned.
/// Threads: all of the CTA; complete after __syncthreads.
__device__ void stage_elements(const std::uint16_t* from, std::uint32_t count, std::uint16_t* to) {
  constexpr std::uint32_t kAtOnce = 8;  // loads in flight per thread
  const auto* const words = reinterpret_cast<const uint2*>(from);
  const std::uint32_t num_words = count / 4;
  for (std::uint32_t x = threadIdx.x; x < num_words; x += kItemThreads * kAtOnce) {
    uint2 four[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) four[u] = words[min(x + u * kItemThreads, num_words - 1)];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (x + u * kItemThreads < num_words) reinterpret_cast<uint2*>(to)[x + u * kItemThreads] = four[u];
    }
  }
  if (threadIdx.x < count % 4) to[num_words * 4 + threadIdx.x] = from[num_words * 4 + threadIdx.x];
}

/// Whether one of the `width` columns of a CTA's staged blocks has zeros alone. Values: a column has `height` elements,
/// the next one `stride` behind.
/// Threads: all of the CTA; the answer is for columns of this thread.
__device__ bool has_zero_column(const std::uint16_t* staged, std::uint32_t num_records, std::uint32_t record_elements,
                                std::uint32_t width, std::uint32_t height, std::uint32_t stride) {
  bool found = false;
  for (std::uint32_t x = threadIdx.x; x < num_records * width; x += kItemThreads) {
    const std::uint16_t* const column = staged + x / width * record_elements + kHeadElements + x % width;
    std::uint32_t row = 0;
    while (row < height && column[row * stride] == 0) ++row;
    found |= row == height;
  }
  return found;
}

// Grid: one CTA per records_per_cta(m) records. M: 0 = at run time; N divides m.
// Work: the CTA stages its records in shared memory; a thread then writes N elements of a row of a block, transposed or
//       not, a key for each record, and looks for columns of zeros.
// Memory: contiguous reads of 8 bytes and writes of 2 * N; transposed blocks are read from shared memory in few banks.
template <std::uint32_t M, std::uint32_t N>
__global__ void __launch_bounds__(kItemThreads)
    parse_records(RawRecordsView raw, std::uint32_t per_cta, ParsedView to) {
  extern __shared__ __align__(16) std::uint16_t staged[];  // [per_cta, 4 + m * m]
  const std::uint32_t m = M != 0 ? M : raw.m;
  const std::uint32_t record_elements = kHeadElements + m * m;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * per_cta;
  const auto num_records = static_cast<std::uint32_t>(min(std::uint64_t{per_cta}, raw.count - first));
  stage_elements(reinterpret_cast<const std::uint16_t*>(raw.data) + first * record_elements,
                 num_records * record_elements, staged);
  __syncthreads();  // records are staged
  for (std::uint32_t r = threadIdx.x; r < num_records; r += kItemThreads) {
    const std::uint16_t* const head = staged + r * record_elements;  // of odd sides at no multiple of four bytes
    const std::uint32_t i = head[0] | std::uint32_t{head[1]} << 16;
    const std::uint32_t j = head[2] | std::uint32_t{head[3]} << 16;
    const std::uint64_t record = raw.first + first + r;
    const bool is_bad = i >= raw.nb || j >= raw.nb;
    if (is_bad) atomicMin(to.first_bad, static_cast<unsigned long long>(record));  // the lowest; bad files only
    // Sorting may have been put on the stream before anybody knows: a bad key lies within the matrix.
    to.keys[record] = is_bad ? 0 : std::uint64_t{i} << raw.key_bits | j;
  }
  const std::uint32_t block_words = m * m / N;
  auto* const values = reinterpret_cast<Elements<N>*>(to.values) + (raw.first + first) * block_words;
  std::uint32_t largest = 0;
  for (std::uint32_t x = threadIdx.x; x < num_records * block_words; x += kItemThreads) {
    const std::uint16_t* const block = staged + x / block_words * record_elements + kHeadElements;
    const std::uint32_t e = x % block_words * N;
    const std::uint32_t from = raw.transpose ? e % m * m + e / m : e;
    const std::uint32_t stride = raw.transpose ? m : 1;
    Elements<N> out;
#pragma unroll
    for (std::uint32_t n = 0; n < N; ++n) {
      out.x[n] = block[from + n * stride];
      largest = max(largest, std::uint32_t{out.x[n]});
    }
    values[x] = out;
  }
  const bool has_zeros = raw.transpose ? has_zero_column(staged, num_records, record_elements, 1, m * m, 1)
                                       : has_zero_column(staged, num_records, record_elements, m, m, m);
  if (has_zeros) *to.has_zeros = 1;  // all threads that write store 1: no atomic is needed
  raise_max(to.max_element, largest);
}

template <std::uint32_t M, std::uint32_t N>
void launch(const RawRecordsView& raw, const ParsedView& parsed, cudaStream_t stream) {
  const std::uint32_t per_cta = records_per_cta(raw.m);
  const auto grid = static_cast<unsigned>((raw.count + per_cta - 1) / per_cta);
  const std::uint32_t shared_bytes = per_cta * 2 * (kHeadElements + raw.m * raw.m);
  parse_records<M, N><<<grid, kItemThreads, shared_bytes, stream>>>(raw, per_cta, parsed);
}

}  // namespace

void launch_parse_records(const RawRecordsView& raw, const ParsedView& parsed, cudaStream_t stream) {
  if (raw.count == 0) return;
  for_block_side<1, 4, 8>(raw.m, [&](auto side) {
    constexpr std::uint32_t kM = decltype(side)::value;
    if constexpr (kM != 0) {
      launch<kM, std::min(kM, 4u)>(raw, parsed, stream);
    } else if (raw.m % 2 == 0) {
      launch<0, 2>(raw, parsed, stream);
    } else {
      launch<0, 1>(raw, parsed, stream);
    }
  });
  check_launch("parse_records");
}

}  // namespace spmm::kernels
