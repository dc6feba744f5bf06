// Ranges of C shared out among threads; what they compute is appended to the result in order.
#include <algorithm>
#include <atomic>
#include <cfenv>
#include <mutex>
#include <numeric>

#include "base/run/output.hpp"
#include "base/text.hpp"
#include "cpu/chains/chains.hpp"
#include "cpu/output/queue.hpp"

namespace spmm::cpu {
namespace {

/// Floats as IEEE has them while it lives: the caller's thread may flush subnormals or round upwards, and threads that
/// it starts do so, too.
class DefaultFloats {
 public:
  DefaultFloats() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloats() { std::fesetenv(&callers_); }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
  std::fenv_t callers_{};
};

/// Appends buffers to the result: values of as many blocks as a buffer has room for, then their columns.
template <class T>
class ResultSink final : public Sink {
 public:
  ResultSink(const ChainResult<T>& result, std::uint64_t elements, std::uint64_t buffer_blocks)
      : result_(result), elements_(elements), buffer_blocks_(buffer_blocks) {}

  void write(std::uint64_t first_block, std::span<const std::byte> records, Release) override {
    const std::uint64_t num_blocks = records.size() / (elements_ * sizeof(T) + sizeof(std::uint32_t));
    if (first_block + num_blocks > result_.most_blocks) {
      throw OutOfMemory("a product in memory",
                        text("has more blocks than the ", result_.most_blocks, " that fit the limit"),
                        "raise EngineOptions::memory_limit_bytes, or multiply some block rows of A at a time");
    }
    const auto* const values = reinterpret_cast<const T*>(records.data());
    result_.data.insert(result_.data.end(), values, values + num_blocks * elements_);
    const auto* const columns = reinterpret_cast<const std::uint32_t*>(values + buffer_blocks_ * elements_);
    if (result_.names.empty()) {
      result_.indices.insert(result_.indices.end(), columns, columns + num_blocks);
      return;
    }
    for (std::uint64_t x = 0; x < num_blocks; ++x) result_.indices.push_back(result_.names[columns[x]]);
  }
  void finish(const MatrixHeader&) override {}
  void publish() override {}

 private:
  const ChainResult<T>& result_;
  const std::uint64_t elements_;
  const std::uint64_t buffer_blocks_;
};

template <class T>
MultiplyRange<T> range_of([[maybe_unused]] Isa isa, std::uint32_t m) {
  MultiplyRange<T> range = nullptr;
#if defined(__x86_64__)
  if (isa == Isa::avx512_vnni) range = avx512_range<T>(m);
  if (range == nullptr && isa != Isa::portable) range = avx2_range<T>(m);
#endif
  return range == nullptr ? portable_range<T>(m) : range;
}

AlignedArray<std::uint64_t> zeros(std::uint64_t size) {
  AlignedArray<std::uint64_t> array(size);
  std::fill(array.begin(), array.end(), 0);
  return array;
}

}  // namespace

ChainScratch::ChainScratch(std::uint32_t num_columns)
    : bits(zeros(num_columns / 64 + 1)), words(zeros(num_columns / 4096 + 1)), places(zeros(num_columns)) {}

std::uint64_t ChainScratch::bytes(std::uint32_t num_columns) {
  return sizeof(std::uint64_t) * (num_columns / 64 + num_columns / 4096 + 2 + std::uint64_t{num_columns});
}

std::uint32_t* sort_columns(std::uint32_t* begin, std::uint32_t* end) {
  std::sort(begin, end);
  return std::unique(begin, end);
}

std::vector<std::uint64_t> count_pairs(const ChainIndex& a, const ChainIndex& b, const ChainIndex* c, const Run& run) {
  constexpr std::uint64_t kRowsAtOnce = 1024;
  std::vector<std::uint64_t> pairs(a.num_rows);
  run.parallel_for(a.num_rows, kRowsAtOnce, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    for (std::uint64_t row = begin; row < end; ++row) {
      std::uint64_t num = c == nullptr ? 0 : c->offsets[row + 1] - c->offsets[row];
      for (std::uint64_t x = a.offsets[row]; x < a.offsets[row + 1]; ++x) {
        num += b.offsets[a.columns[x] + std::size_t{1}] - b.offsets[a.columns[x]];
      }
      pairs[row] = num;
    }
  });
  return pairs;
}

ChainMemory chain_memory(std::uint32_t num_columns, std::uint64_t block_bytes, std::uint64_t most_blocks,
                         unsigned num_threads, std::uint64_t room_bytes) {
  constexpr std::uint64_t kBufferBytes = 1u << 20;  // a row of C, as a rule
  constexpr std::uint64_t kBuffersPerThread = 4;    // one is filled, others wait for their turn
  constexpr std::uint64_t kCacheLineRecords = 16;   // so that every buffer begins with a cache line
  const std::uint64_t record = block_bytes + sizeof(std::uint32_t);
  ChainMemory memory;
  const auto fits = [&](unsigned threads, std::uint64_t buffer_bytes) {
    memory.num_threads = threads;
    memory.num_buffers = kBuffersPerThread * threads;
    memory.buffer_blocks =
        std::min(most_blocks, buffer_bytes / record) / kCacheLineRecords * kCacheLineRecords + kCacheLineRecords;
    memory.bytes = threads * ChainScratch::bytes(num_columns) + memory.num_buffers * memory.buffer_blocks * record;
    return memory.bytes <= room_bytes;
  };
  while (num_threads > 1 && !fits(num_threads, kBufferBytes)) --num_threads;
  for (std::uint64_t buffer = kBufferBytes; buffer > 0 && !fits(num_threads, buffer); buffer /= 2) {
  }
  return memory;
}

template <class T>
PatternUse multiply_chains(ChainProduct<T> product, const ChainResult<ProductOf<T>>& result, const ChainMemory& memory,
                           Isa isa, const Run& run) {
  constexpr std::uint64_t kRangesPerThread = 32;      // the last ones level out what the others differ
  constexpr std::uint64_t kMinPairs = 1u << 11;       // more work than handing out a range
  constexpr std::uint64_t kCachedBytes = 256u << 10;  // of C, in the second-level cache beside B's rows
  using Sum = typename Chain<T>::Sum;
  product.cancel = run.cancel;
  const std::uint64_t elements = std::uint64_t{product.m} * product.m;
  const std::uint64_t record = elements * sizeof(Sum) + sizeof(std::uint32_t);
  const std::uint32_t num_columns = product.b.at.num_columns;
  const std::uint64_t num_pairs = std::accumulate(product.row_pairs.begin(), product.row_pairs.end(), std::uint64_t{0});
  const RangeLimits limits{.pairs = std::max(kMinPairs, num_pairs / (memory.num_threads * kRangesPerThread)),
                           .blocks = std::min(memory.buffer_blocks, std::max<std::uint64_t>(1, kCachedBytes / record)),
                           .part_blocks = memory.buffer_blocks,
                           .least_part_pairs = kMinPairs};
  RangeCutter cutter({.pairs = product.row_pairs,
                      .num_columns = num_columns,
                      .b_columns = {product.b.at.columns, product.b.at.offsets[product.b.at.num_rows]}});
  ResultSink<ProductOf<T>> sink(result, elements, memory.buffer_blocks);
  Output output(sink);
  Run own = run;
  own.num_threads = memory.num_threads;
  OutputQueue queue(output, memory.num_buffers, memory.buffer_blocks * record, record, own);
  Progress progress(run, Stage::multiply, product.a.at.num_rows);
  const MultiplyRange<T> multiply = range_of<T>(isa, product.m);
  std::mutex mutex;  // of `use`
  PatternUse use{.num_pairs = num_pairs};
  std::uint64_t outside = ~std::uint64_t{0};
  queue.run([&](RecordWriter& out) {
    const DefaultFloats floats;
    ChainScratch scratch(num_columns);
    out.set_may_saturate(false);
    Range range;
    while (out.start([&] { return cutter.next(range, limits); })) {
      Range part = range;
      while (part.column_begin < range.column_end) {
        // Several rows fit a buffer. Of one row as many columns as fit for sure.
        const std::uint64_t room = out.room();
        const std::uint64_t width = range.column_end - part.column_begin;
        const bool fits =
            range.row_end - range.row_begin > 1 || std::min(product.row_pairs[range.row_begin], width) <= room;
        part.column_end =
            fits ? range.column_end : part.column_begin + static_cast<std::uint32_t>(std::min(width, room));
        scratch.row_blocks.assign(range.row_end - range.row_begin, 0);
        const auto filled = static_cast<std::uint64_t>(out.position() - out.buffer()) / record;
        auto* const values = reinterpret_cast<Sum*>(out.buffer());
        auto* const columns = reinterpret_cast<std::uint32_t*>(values + memory.buffer_blocks * elements);
        const std::uint64_t num_blocks = multiply(product, part, scratch, columns + filled, values + filled * elements);
        if (scratch.is_cancelled) {
          throw Interrupted("spmm", "interrupted", "nothing was written, it is safe to run it again");
        }
        for (std::uint32_t row = range.row_begin; row < range.row_end; ++row) {
          const auto blocks = static_cast<std::int64_t>(scratch.row_blocks[row - range.row_begin]);
          std::atomic_ref(result.indptr[row + std::size_t{1}]).fetch_add(blocks, std::memory_order_relaxed);
        }
        out.advance_to(out.position() + num_blocks * record);
        part.column_begin = part.column_end;
      }
      out.finish();
      if (range.column_end == num_columns) progress.add(range.row_end - range.row_begin);
    }
    const std::lock_guard lock(mutex);
    use.num_pairs -= scratch.pairs_outside;
    outside = std::min(outside, scratch.outside);
  });
  std::partial_sum(result.indptr.begin(), result.indptr.end(), result.indptr.begin());
  if (product.c != nullptr) use.num_pairs -= product.c->offsets[product.c->num_rows];
  if (outside != ~std::uint64_t{0}) {
    use.missing = BlockIndex{static_cast<std::uint32_t>(outside >> 32), static_cast<std::uint32_t>(outside)};
    if (!result.names.empty()) use.missing->j = result.names[use.missing->j];
  }
  return use;
}

#define SPMM_MULTIPLY(T, name)                                                                                    \
  template PatternUse multiply_chains(ChainProduct<T>, const ChainResult<ProductOf<T>>&, const ChainMemory&, Isa, \
                                      const Run&);
SPMM_ELEMENT_TYPES(SPMM_MULTIPLY)

}  // namespace spmm::cpu
