// The pattern of C, and its rows shared out among threads.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cfenv>
#include <utility>

#include "cpu/chains/chains.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kRowsAtOnce = 32;  // that a thread takes

/// Columns of a row: a bitmap with a bit for each of its words, read in order, or a list that is sorted if they lie far
/// apart.
class ColumnSet {
 public:
  explicit ColumnSet(std::uint32_t num_columns) : bits_(num_columns / 64 + 1, 0), words_(num_columns / 4096 + 1, 0) {}

  void add(std::uint32_t column, std::vector<std::uint32_t>& to) {
    std::uint64_t& word = bits_[column / 64];
    const std::uint64_t bit = std::uint64_t{1} << column % 64;
    if ((word & bit) != 0) return;
    if (word == 0) words_[column / 4096] |= std::uint64_t{1} << column / 64 % 64;
    word |= bit;
    to.push_back(column);
  }

  /// Sorts the columns from `first` on, which are those of the set, and empties it.
  void take_sorted(std::vector<std::uint32_t>& columns, std::size_t first) {
    constexpr std::uint64_t kWordsPerColumn = 8;  // read in the time that sorting a column takes; an assumption
    const auto begin = columns.begin() + static_cast<std::ptrdiff_t>(first);
    if (words_.size() > kWordsPerColumn * (columns.size() - first)) {
      std::sort(begin, columns.end());
      for (auto column = begin; column != columns.end(); ++column) {
        bits_[*column / 64] = 0;
        words_[*column / 4096] = 0;
      }
      return;
    }
    auto to = begin;
    for (std::uint32_t x = 0; x < words_.size(); ++x) {
      for (std::uint64_t words = std::exchange(words_[x], 0); words != 0; words &= words - 1) {
        const std::uint32_t w = x * 64 + static_cast<std::uint32_t>(std::countr_zero(words));
        for (std::uint64_t bits = std::exchange(bits_[w], 0); bits != 0; bits &= bits - 1) {
          *to++ = w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
        }
      }
    }
  }

 private:
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint64_t> words_;  // which of them are not 0
};

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

/// Calls body(begin, end, scratch) for pieces of [0, num_rows); each thread makes a scratch of its own.
template <class Make, class Body>
void share_rows(std::uint64_t num_rows, const Run& run, const Make& make, const Body& body) {
  std::atomic<std::uint64_t> next{0};
  run.run_workers(run.num_threads, [&](unsigned) {
    const DefaultFloats floats;
    std::uint64_t begin = next.fetch_add(kRowsAtOnce);
    if (begin >= num_rows) return;
    for (auto scratch = make(); begin < num_rows; begin = next.fetch_add(kRowsAtOnce)) {
      run.check_cancelled();
      body(begin, std::min(num_rows, begin + kRowsAtOnce), scratch);
    }
  });
}

template <class T>
MultiplyRows<T> rows_of([[maybe_unused]] Isa isa, std::uint32_t m) {
  MultiplyRows<T> rows = nullptr;
#if defined(__x86_64__)
  if (isa == Isa::avx512_vnni) rows = avx512_rows<T>(m);
  if (rows == nullptr && isa != Isa::portable) rows = avx2_rows<T>(m);
#endif
  return rows == nullptr ? portable_rows<T>(m) : rows;
}

}  // namespace

ChainPattern find_pattern(const ChainIndex& a, const ChainIndex& b, const Run& run) {
  ChainPattern pattern{.offsets = std::vector<std::uint64_t>(a.num_rows + std::size_t{1})};
  std::vector<std::vector<std::uint32_t>> pieces((a.num_rows + kRowsAtOnce - 1) / kRowsAtOnce);
  share_rows(
      a.num_rows, run, [&] { return ColumnSet(b.num_columns); },
      [&](std::uint64_t begin, std::uint64_t end, ColumnSet& set) {
        std::vector<std::uint32_t>& columns = pieces[begin / kRowsAtOnce];
        for (std::uint64_t row = begin; row < end; ++row) {
          const std::size_t first = columns.size();
          for (std::uint64_t x = a.offsets[row]; x < a.offsets[row + 1]; ++x) {
            const std::uint32_t k = a.columns[x];
            for (std::uint64_t y = b.offsets[k]; y < b.offsets[k + 1]; ++y) set.add(b.columns[y], columns);
          }
          set.take_sorted(columns, first);
          pattern.offsets[row + 1] = columns.size() - first;
        }
      });
  for (std::uint64_t row = 0; row < a.num_rows; ++row) pattern.offsets[row + 1] += pattern.offsets[row];
  pattern.columns.reserve(pattern.offsets.back());
  for (const auto& piece : pieces) pattern.columns.insert(pattern.columns.end(), piece.begin(), piece.end());
  return pattern;
}

PatternUse check_pattern(const ChainIndex& a, const ChainIndex& b, const ChainPattern& pattern, const Run& run) {
  std::atomic<std::uint64_t> num_pairs{0};
  std::atomic<std::uint64_t> missing{~std::uint64_t{0}};  // row << 32 | column
  share_rows(
      a.num_rows, run, [&] { return std::vector<std::uint64_t>(b.num_columns, 0); },
      [&](std::uint64_t begin, std::uint64_t end, std::vector<std::uint64_t>& last_row) {  // of each column, + 1
        std::uint64_t num_inside = 0;
        std::uint64_t outside = ~std::uint64_t{0};
        for (std::uint64_t row = begin; row < end; ++row) {
          for (std::uint64_t x = pattern.offsets[row]; x < pattern.offsets[row + 1]; ++x) {
            last_row[pattern.columns[x]] = row + 1;
          }
          for (std::uint64_t x = a.offsets[row]; x < a.offsets[row + 1]; ++x) {
            const std::uint32_t k = a.columns[x];
            for (std::uint64_t y = b.offsets[k]; y < b.offsets[k + 1]; ++y) {
              if (last_row[b.columns[y]] == row + 1) {
                ++num_inside;
              } else {
                outside = std::min(outside, row << 32 | b.columns[y]);
              }
            }
          }
        }
        num_pairs += num_inside;
        std::uint64_t least = missing;
        while (outside < least && !missing.compare_exchange_weak(least, outside)) {
        }
      });
  PatternUse use{.num_pairs = num_pairs};
  if (missing != ~std::uint64_t{0}) {
    use.missing = BlockIndex{static_cast<std::uint32_t>(missing >> 32), static_cast<std::uint32_t>(missing)};
  }
  return use;
}

template <class T>
void multiply_chains(const ChainProduct<T>& product, Isa isa, const Run& run) {
  const MultiplyRows<T> multiply = rows_of<T>(isa, product.m);
  const auto make = [&] { return std::vector<std::byte>(std::size_t{8} * product.b.at.num_columns); };
  Progress progress(run, Stage::multiply, product.a.at.num_rows);
  share_rows(product.a.at.num_rows, run, make,
             [&](std::uint64_t begin, std::uint64_t end, std::vector<std::byte>& scratch) {
               multiply(product, begin, end, scratch.data());
               progress.add(end - begin);
             });
}

#define SPMM_MULTIPLY(T, name) template void multiply_chains(const ChainProduct<T>&, Isa, const Run&);
SPMM_CHAIN_TYPES(SPMM_MULTIPLY)

}  // namespace spmm::cpu
