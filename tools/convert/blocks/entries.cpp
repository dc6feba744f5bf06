// Elements of a matrix as a list, sorted and added up.
#include "tools/convert/blocks/entries.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/memory/machine_memory.hpp"
#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr std::size_t kBuckets = 2048;
constexpr std::size_t kMaxPlaces = 3;  // a message names no more

/// Errors: OutOfMemory if so many elements do not fit what is free now.
void check_memory(std::uint64_t num_entries, std::uint64_t held_entries, const std::string& name) {
  const std::uint64_t free_bytes = available_memory_bytes();
  const std::uint64_t held_bytes = held_entries * sizeof(MatrixEntry);  // given back once they are copied
  if (num_entries <= (free_bytes + held_bytes) / sizeof(MatrixEntry)) return;
  throw OutOfMemory(name,
                    text(num_entries, " elements need ", human_bytes(num_entries * sizeof(MatrixEntry)),
                         " of memory (16 bytes each), free are ", human_bytes(free_bytes)),
                    "convert on a machine with more memory");
}

}  // namespace

void EntrySink::expect(std::uint64_t num_entries, const std::string& name) {
  name_ = name;
  if (searching_ || num_entries <= entries_.capacity()) return;
  check_memory(num_entries, 0, name);
  entries_.reserve(num_entries);
}

void EntrySink::expect_at_most(std::uint64_t num_entries, const std::string& name) {
  name_ = name;
  if (searching_ || num_entries <= entries_.capacity()) return;
  if (num_entries <= available_memory_bytes() / sizeof(MatrixEntry)) entries_.reserve(num_entries);
}

void EntrySink::grow() {
  constexpr std::uint64_t kLeast = 4096;
  const std::uint64_t next = std::max<std::uint64_t>(kLeast, entries_.capacity() + entries_.capacity() / 2);
  if (entries_.capacity() > kLeast * kLeast) check_memory(next, entries_.size(), name_);
  entries_.reserve(next);
}

void EntrySink::search(std::uint32_t row, std::uint32_t column) {
  searching_ = true;
  row_ = row;
  column_ = column;
}

void EntrySink::compare(std::uint32_t row, std::uint32_t column, std::uint64_t place) {
  if (row == row_ && column == column_ && places_.size() < kMaxPlaces) places_.push_back(place);
}

void sort_entries(std::vector<MatrixEntry>& entries, unsigned num_threads) {
  const auto before = [](const MatrixEntry& x, const MatrixEntry& y) { return x.key() < y.key(); };
  if (entries.empty() || std::is_sorted(entries.begin(), entries.end(), before)) return;
  std::uint32_t last_row = 0;
  for (const MatrixEntry& entry : entries) last_row = std::max(last_row, entry.row);
  const int shift = std::max(0, static_cast<int>(std::bit_width(last_row)) - std::countr_zero(kBuckets));
  const auto bucket_of = [&](const MatrixEntry& entry) { return std::size_t{entry.row} >> shift; };

  // Each element goes to the next free place of its bucket of rows, in place; then the buckets are sorted.
  std::array<std::uint64_t, kBuckets + 1> bounds{};
  for (const MatrixEntry& entry : entries) ++bounds[bucket_of(entry) + 1];
  for (std::size_t b = 0; b < kBuckets; ++b) bounds[b + 1] += bounds[b];
  std::array<std::uint64_t, kBuckets> next{};
  std::copy_n(bounds.begin(), kBuckets, next.begin());
  for (std::size_t b = 0; b < kBuckets; ++b) {
    while (next[b] < bounds[b + 1]) {
      MatrixEntry entry = entries[next[b]];
      for (std::size_t home = bucket_of(entry); home != b; home = bucket_of(entry)) {
        std::swap(entry, entries[next[home]++]);
      }
      entries[next[b]++] = entry;
    }
  }
  parallel_for(num_threads, kBuckets, 1, [&](std::uint64_t first, std::uint64_t end) {
    cli::check_cancelled("spmm-convert");
    const auto at = [&](std::uint64_t bound) { return entries.begin() + static_cast<std::ptrdiff_t>(bounds[bound]); };
    for (std::uint64_t b = first; b < end; ++b) std::sort(at(b), at(b + 1), before);
  });
}

}  // namespace spmm::tools
