// C blocks leave a kernel as packed records: the CTA flags its non-zero C blocks, learns by decoupled look-back how
// many records the CTAs before it write, and writes its own behind them.
// Source: D. Merrill and M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVR-2016-002.
#pragma once

#include <cstdint>

#include "kernels/check.hpp"
#include "kernels/tuning.hpp"
#include "kernels/views.hpp"
#include "kernels/warp.cuh"

namespace spmm::kernels {

/// Which C blocks of a CTA are not zero, and where their records go; in shared memory.
struct CBlockFlags {
  static constexpr std::uint32_t kMaxCBlocks = kMaxChunkBlocks;
  std::uint32_t words[kMaxCBlocks / 32];   // a bit per C block
  std::uint32_t before[kMaxCBlocks / 32];  // flagged C blocks of the CTA before each word
  std::uint32_t count;                     // flagged C blocks of the CTA
  std::uint32_t first;                     // record number of the CTA's first record
  std::uint32_t cta;                       // number of the CTA in result order
};

/// What a CTA has published: nothing yet, its own number of records, or that of all CTAs up to it.
enum class LookBack : std::uint32_t { none, own, total };

__device__ inline std::uint64_t look_back_state(LookBack kind, std::uint32_t count) {
  return std::uint64_t{static_cast<std::uint32_t>(kind)} << 32 | count;
}

/// Hands out CTA numbers in result order as CTAs start, so that a CTA waits only for CTAs that run already.
/// Threads: thread 0, which shares the answer.
__device__ inline std::uint32_t take_cta_number(const RecordOutput& out) {
  auto* const counter = reinterpret_cast<unsigned long long*>(out.look_back);
  return static_cast<std::uint32_t>(atomicAdd(counter, 1ull));  // each CTA gets a number of its own
}

/// A panel without C blocks.
inline void launch_no_records(const RecordOutput& out, cudaStream_t stream) {
  if (out.num_before == nullptr) {
    check(cudaMemsetAsync(out.num_blocks, 0, sizeof(std::uint32_t), stream), "no records");
  } else {
    check(cudaMemcpyAsync(out.num_blocks, out.num_before, sizeof(std::uint32_t), cudaMemcpyDefault, stream),
          "no records");
  }
}

/// Whether the launch has to do anything.
__device__ inline bool is_wanted(const RecordOutput& out) {
  if (out.largest == nullptr) return true;
  const std::uint32_t largest = __ldg(out.largest);
  return largest >= out.least_largest && largest <= out.most_largest;
}

/// Records of the panels before.
__device__ inline std::uint32_t records_of_panels_before(const RecordOutput& out) {
  return out.num_before == nullptr ? 0 : __ldg(out.num_before);
}

/// Number of records of all panels and CTAs before `cta`, which has `count`.
/// Work: 32 CTAs at a time, from the nearest; four times as many states are in flight, because most CTAs that run at
/// the same time have published nothing but their own number.
/// Threads: one whole warp.
__device__ inline std::uint32_t records_before(const RecordOutput& out, std::uint32_t cta, std::uint32_t count) {
  constexpr std::uint32_t kAtOnce = 4;
  volatile std::uint64_t* const states = out.look_back + 1;  // kind and count in one word: no fence is needed
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t of_panels = cta == 0 ? records_of_panels_before(out) : 0;
  if (lane == 0) states[cta] = look_back_state(cta == 0 ? LookBack::total : LookBack::own, of_panels + count);
  if (cta == 0) return of_panels;
  const auto state_of = [&](std::int64_t x) {
    return x >= 0 ? states[x] : look_back_state(LookBack::total, 0);  // volatile: read anew every time
  };
  std::uint32_t sum = 0;
  bool complete = false;
  for (std::int64_t last = std::int64_t{cta} - 1 - lane; !complete; last -= 32 * kAtOnce) {
    std::uint64_t nearest[kAtOnce];
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) nearest[u] = state_of(last - 32 * std::int64_t{u});
#pragma unroll
    for (std::uint32_t u = 0; u < kAtOnce; ++u) {
      if (complete) break;
      std::uint64_t state = nearest[u];
      std::uint32_t needed = 0;
      while (true) {
        const auto kind = static_cast<LookBack>(state >> 32);
        const std::uint32_t ready = __ballot_sync(~0u, kind != LookBack::none);
        const std::uint32_t totals = __ballot_sync(~0u, kind == LookBack::total);
        complete = totals != 0;
        needed = complete ? totals ^ (totals - 1) : ~0u;  // lanes up to the nearest total
        if ((ready & needed) == needed) break;
        state = state_of(last - 32 * std::int64_t{u});
      }
      sum += warp_total(needed >> lane & 1 ? static_cast<std::uint32_t>(state) : 0);
    }
  }
  if (lane == 0) states[cta] = look_back_state(LookBack::total, sum + count);
  return sum;
}

/// Finds where the CTA's records go: counts the flagged C blocks, and learns by look-back how many come before. Writes
/// before, count and first.
/// Threads: one whole warp, once words are complete.
__device__ inline void find_output_offset(CBlockFlags& flags, std::uint32_t num_c_blocks, const RecordOutput& out,
                                          std::uint32_t num_ctas) {
  const std::uint32_t count = scan_by_warp(
      0, (num_c_blocks + 31) / 32, 0,
      [&](std::uint32_t w) { return static_cast<std::uint32_t>(__popc(flags.words[w])); },
      [&](std::uint32_t w, std::uint32_t sum) { flags.before[w] = sum; });
  const std::uint32_t before = records_before(out, flags.cta, count);
  if (threadIdx.x % 32 != 0) return;
  flags.count = count;
  flags.first = before;
  if (flags.cta + 1 == num_ctas) *out.num_blocks = before + count;
}

/// order[r] = C block, or position, of the CTA's record r.
/// Shapes: order [flagged C blocks], shared.
/// Threads: the first num_threads of the CTA, once the output offset is known.
__device__ inline void order_records(const CBlockFlags& flags, std::uint32_t num_c_blocks, std::uint16_t* order,
                                     std::uint32_t num_threads) {
  for (std::uint32_t c_block = threadIdx.x; c_block < num_c_blocks; c_block += num_threads) {
    const std::uint32_t word = flags.words[c_block / 32];
    if ((word >> c_block % 32 & 1) == 0) continue;
    order[flags.before[c_block / 32] + __popc(word & ((1u << c_block % 32) - 1))] = static_cast<std::uint16_t>(c_block);
  }
}

/// What records are made of: value(c_block, e) = element e of a C block, pair(c_block, x) = elements 2x and 2x + 1,
/// asked for where their number is even, index(c_block) = {block row, block column}.
template <class Value, class Pair, class Index>
struct RecordContent {
  Value value;
  Pair pair;
  Index index;
};
template <class Value, class Pair, class Index>
RecordContent(Value, Pair, Index) -> RecordContent<Value, Pair, Index>;

/// Successive records, in words of 32 bits, or of 64 if m is even: Word = std::uint32_t or uint2.
template <class Word>
class RecordWords {
 public:
  static constexpr std::uint32_t kHeadWords = 2 * sizeof(std::uint32_t) / sizeof(Word);

  __device__ RecordWords(const RecordPlaces& to, std::uint64_t first)
      : head_stride_(to.head_stride / kPerWord), value_stride_(to.value_stride / kPerWord) {
    heads_ = reinterpret_cast<Word*>(to.heads) + first * head_stride_;
    values_ = reinterpret_cast<Word*>(to.values) + first * value_stride_ - kHeadWords;
  }

  /// Word o of a record: the head's, then those of its elements. Number: 64 bits if records are many.
  template <class Number>
  __device__ Word& at(Number record, std::uint32_t o) const {
    const bool is_head = o < kHeadWords;
    return (is_head ? heads_ : values_)[record * (is_head ? head_stride_ : value_stride_) + o];
  }

 private:
  static constexpr std::uint32_t kPerWord = sizeof(Word) / sizeof(std::uint32_t);
  Word* heads_;
  Word* values_;  // of the first record, a head before them
  std::uint32_t head_stride_;
  std::uint32_t value_stride_;
};

/// All C blocks of a CTA, in their order: what write_records takes where none of them is left out.
struct AllCBlocks {
  std::uint32_t first;  // record number of the first one
  std::uint32_t count;

  __device__ std::uint32_t operator[](std::uint32_t record) const { return record; }
};

/// Writes the records of the flagged C blocks. M = 0: m is known at run time.
/// Shapes: flags and order = CBlockFlags and what order_records wrote, or AllCBlocks twice.
/// Memory: neighbouring threads write neighbouring words, 64 bits wide where a record is a multiple of that.
/// Threads: all of the CTA, once the order is complete.
template <std::uint32_t M, class Flags, class Order, class Value, class Pair, class Index>
__device__ void write_records(const Flags& flags, const Order& order, std::uint32_t run_time_m, const RecordOutput& out,
                              const RecordContent<Value, Pair, Index>& parts) {
  const std::uint32_t m = M != 0 ? M : run_time_m;
  const auto write_all = [&](const auto& words, std::uint32_t record_words, const auto& word_at) {
    const std::uint32_t end = flags.count * record_words;
    // A product instead of a division: exact if x * record_words < 2^32. Source: T. Granlund and P. Montgomery,
    // "Division by invariant integers using multiplication", PLDI 1994.
    const std::uint32_t inverse = ~0u / record_words + 1;  // 2^32 / record_words, rounded up
#pragma unroll(M != 0 ? 2 : 1)
    for (std::uint32_t x = threadIdx.x; x < end; x += blockDim.x) {
      const std::uint32_t record = M != 0 ? x / record_words : __umulhi(x, inverse);
      const std::uint32_t o = x - record * record_words;
      words.at(record, o) = word_at(order[record], o);
    }
  };
  if (M != 0 || m % 2 == 0) {  // a record is a whole number of 64-bit words
    write_all(RecordWords<uint2>(out.to, flags.first), 1 + m * m / 2, [&](std::uint32_t c_block, std::uint32_t o) {
      return o == 0 ? parts.index(c_block) : parts.pair(c_block, o - 1);
    });
  } else {
    write_all(RecordWords<std::uint32_t>(out.to, flags.first), 2 + m * m, [&](std::uint32_t c_block, std::uint32_t o) {
      if (o >= 2) return parts.value(c_block, o - 2);
      const uint2 index = parts.index(c_block);
      return o == 0 ? index.x : index.y;
    });
  }
}

}  // namespace spmm::kernels
