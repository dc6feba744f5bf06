// Which side of blocks stores a matrix in the fewest bytes.
#include "tools/convert/blocks/side.hpp"

#include <algorithm>
#include <iterator>

#include "base/run/parallel.hpp"
#include "cli/program.hpp"
#include "spmm/types.hpp"

namespace spmm::tools {
namespace {

/// Counts different block columns by noting for each the last block row that had it.
std::uint64_t count_by_notes(const std::vector<MatrixEntry>& entries, std::uint32_t m, std::uint32_t last_column) {
  constexpr std::uint64_t kNever = UINT32_MAX;
  std::vector<std::uint32_t> last_row(last_column / m + 1, static_cast<std::uint32_t>(kNever));
  std::uint64_t blocks = 0;
  for (const MatrixEntry& entry : entries) {
    std::uint32_t& noted = last_row[entry.column / m];
    const std::uint32_t row = entry.row / m;  // below 2^32 - 1 for m > 1
    blocks += noted != row ? 1 : 0;
    noted = row;
  }
  return blocks;
}

/// The same if there are many more columns than elements.
std::uint64_t count_by_sorting(const std::vector<MatrixEntry>& entries, std::uint32_t m) {
  std::vector<std::uint32_t> columns;
  std::uint64_t blocks = 0;
  for (std::size_t begin = 0; begin < entries.size();) {
    const std::uint32_t row = entries[begin].row / m;
    columns.clear();
    for (; begin < entries.size() && entries[begin].row / m == row; ++begin) {
      columns.push_back(entries[begin].column / m);
    }
    std::sort(columns.begin(), columns.end());
    blocks += static_cast<std::uint64_t>(std::unique(columns.begin(), columns.end()) - columns.begin());
  }
  return blocks;
}

}  // namespace

std::uint64_t count_blocks(const std::vector<MatrixEntry>& entries, std::uint32_t m) {
  if (m == 1) return entries.size();
  std::uint32_t last_column = 0;
  for (const MatrixEntry& entry : entries) last_column = std::max(last_column, entry.column);
  // Notes take 4 bytes a block column. All sides may be counted at once: 9 bytes for each element at most.
  if (last_column / m <= entries.size() / 8) return count_by_notes(entries, m, last_column);
  return count_by_sorting(entries, m);
}

std::uint32_t choose_block_side(const std::vector<MatrixEntry>& entries, std::uint32_t n, unsigned num_threads) {
  constexpr std::size_t kNumSides = std::size(kTriedSides);
  constexpr std::uint64_t kMaxBlocks = UINT32_MAX;
  std::vector<std::uint64_t> bytes(kNumSides, UINT64_MAX);
  parallel_for(num_threads, kNumSides, 1, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t s = begin; s < end; ++s) {
      cli::check_cancelled("spmm-convert");
      if (n % kTriedSides[s] != 0) continue;
      const std::uint64_t blocks = count_blocks(entries, kTriedSides[s]);
      if (blocks <= kMaxBlocks) bytes[s] = blocks * input_record_bytes(kTriedSides[s]);
    }
  });
  std::size_t best = 0;
  for (std::size_t s = 1; s < kNumSides; ++s) {
    if (bytes[s] <= bytes[best]) best = s;
  }
  return kTriedSides[best];
}

}  // namespace spmm::tools
