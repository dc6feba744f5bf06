// Counts what one pass over a matrix file shows, and what follows for a product of two.
#include "tools/info/matrix_info.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/records/saturated_count.hpp"
#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"
#include "spmm/saturate.hpp"

namespace spmm::tools {
namespace {

/// What one thread found in a piece of the file.
struct Scan {
  std::uint64_t zero_blocks = 0;
  std::uint64_t nonzero_elements = 0;
  std::uint32_t largest_element = 0;
  std::uint64_t saturated_elements = 0;
  bool sorted = true;
  std::vector<std::uint32_t> rows;
  std::vector<std::uint32_t> columns;
};

/// Shapes: values [count] packed elements.
template <class T>
void scan_block(const std::byte* values, std::uint64_t count, Scan& piece) {
  T largest = 0;
  std::uint64_t nonzero = 0;
  for (std::uint64_t e = 0; e < count; ++e) {
    T value = 0;
    std::memcpy(&value, values + e * sizeof(T), sizeof(T));
    largest = std::max(largest, value);
    nonzero += value != 0 ? 1 : 0;
  }
  piece.largest_element = std::max<std::uint32_t>(piece.largest_element, largest);
  piece.nonzero_elements += nonzero;
  piece.zero_blocks += largest == 0 ? 1 : 0;
}

Scan scan_piece(const MatrixFile& matrix, std::uint64_t begin, std::uint64_t end) {
  const MatrixHeader& header = matrix.file.header();
  const std::uint64_t record = matrix.file.record_bytes();
  const std::uint64_t num_elements = std::uint64_t{header.m} * header.m;
  std::vector<std::byte> buffer((end - begin) * record);
  matrix.file.read_records(begin, end - begin, buffer.data());
  Scan piece;
  for (std::uint64_t r = begin; r < end; ++r) {
    const std::byte* here = buffer.data() + (r - begin) * record;
    const BlockIndex at = read_index(here);
    if (at.i >= header.blocks_per_side() || at.j >= header.blocks_per_side()) {
      throw_index_out_of_range(matrix.file.name(), r, record, at, header.blocks_per_side());
    }
    piece.sorted = piece.sorted && (r == begin || BlockIndex{.i = piece.rows.back(), .j = piece.columns.back()} < at);
    piece.rows.push_back(at.i);
    piece.columns.push_back(at.j);
    if (matrix.type == ElementType::u16) {
      scan_block<std::uint16_t>(here + kIndexBytes, num_elements, piece);
    } else {
      scan_block<std::uint32_t>(here + kIndexBytes, num_elements, piece);
    }
  }
  if (matrix.type == ElementType::u32) piece.saturated_elements = count_saturated(buffer);
  return piece;
}

/// Counts indices: in a table of all, or in a list where there are few for a large table.
class Counter {
 public:
  Counter(std::uint32_t size, std::uint64_t num_adds) {
    constexpr std::uint64_t kAlwaysTable = std::uint64_t{1} << 20;
    if (size <= std::max(kAlwaysTable, 2 * num_adds)) table_.resize(size);
  }

  void add(const std::vector<std::uint32_t>& indices) {
    if (table_.empty()) list_.insert(list_.end(), indices.begin(), indices.end());
    if (!table_.empty()) {
      for (const std::uint32_t index : indices) ++table_[index];
    }
  }

  IndexCounts counts() {
    IndexCounts counts;
    for (std::uint32_t index = 0; index < table_.size(); ++index) {
      if (table_[index] > 0) counts.emplace_back(index, table_[index]);
    }
    std::sort(list_.begin(), list_.end());
    for (const std::uint32_t index : list_) {
      if (counts.empty() || counts.back().first != index) counts.emplace_back(index, 0);
      ++counts.back().second;
    }
    return counts;
  }

 private:
  std::vector<std::uint32_t> table_, list_;
};

/// Whether the last block of each piece lies before the first one of the next.
/// Values: ends = first and last block of each piece by its first record.
bool ends_ascend(const std::map<std::uint64_t, std::pair<BlockIndex, BlockIndex>>& ends) {
  const std::pair<BlockIndex, BlockIndex>* before = nullptr;
  for (const auto& [record, piece] : ends) {
    if (before != nullptr && !(before->second < piece.first)) return false;
    before = &piece;
  }
  return true;
}

/// Pairs of blocks of side m without which no element of a result block is the limit, if no element is larger.
std::uint64_t pairs_to_saturate(std::uint64_t largest_a, std::uint64_t largest_b, std::uint64_t m) {
  if (largest_a == 0 || largest_b == 0) return UINT64_MAX;
  const std::uint64_t term = std::min<std::uint64_t>(largest_a * largest_b, kMaxVal);
  return (kMaxVal + term * m - 1) / (term * m);
}

/// Block rows or columns with at least so many blocks.
std::uint64_t num_with(const IndexCounts& counts, std::uint64_t least) {
  return static_cast<std::uint64_t>(
      std::count_if(counts.begin(), counts.end(), [&](const auto& count) { return count.second >= least; }));
}

/// Blocks of each column of A times blocks of the row of B with that index.
std::uint64_t num_pairs(const IndexCounts& columns, const IndexCounts& rows) {
  std::uint64_t sum = 0;
  auto row = rows.begin();
  for (const auto& [index, count] : columns) {
    while (row != rows.end() && row->first < index) ++row;
    if (row != rows.end() && row->first == index) sum += std::uint64_t{count} * row->second;
  }
  return sum;
}

}  // namespace

MatrixInfo read_info(const std::filesystem::path& path, std::optional<ElementType> type, unsigned num_threads) {
  const MatrixFile matrix = open_matrix(path, type, ElementType::u16);
  const MatrixHeader header = matrix.file.header();
  const std::uint32_t nb = header.blocks_per_side();
  MatrixInfo info{.name = matrix.file.name(),
                  .header = header,
                  .num_blocks = matrix.file.num_records(),
                  .type = matrix.type,
                  .file_bytes = matrix.file.file_bytes()};
  Counter rows(nb, info.num_blocks);
  Counter columns(nb, info.num_blocks);
  std::map<std::uint64_t, std::pair<BlockIndex, BlockIndex>> ends;
  std::mutex mutex;
  parallel_for(num_threads, matrix.file.num_records(), records_per_read(matrix.file.record_bytes()),
               [&](std::uint64_t begin, std::uint64_t end) {
                 cli::check_cancelled("spmm-info");
                 const Scan piece = scan_piece(matrix, begin, end);
                 const std::lock_guard lock(mutex);
                 info.zero_blocks += piece.zero_blocks;
                 info.nonzero_elements += piece.nonzero_elements;
                 info.saturated_elements += piece.saturated_elements;
                 info.largest_element = std::max(info.largest_element, piece.largest_element);
                 info.sorted = info.sorted && piece.sorted;
                 rows.add(piece.rows);
                 columns.add(piece.columns);
                 ends[begin] = {{.i = piece.rows.front(), .j = piece.columns.front()},
                                {.i = piece.rows.back(), .j = piece.columns.back()}};
               });
  info.sorted = info.sorted && ends_ascend(ends);
  info.rows = rows.counts();
  info.columns = columns.counts();
  matrix.file.check_unchanged();
  return info;
}

ProductInfo predict_product(const MatrixInfo& a, const MatrixInfo& b) {
  if (a.header.n != b.header.n || a.header.m != b.header.m) {
    throw ShapeError(b.name,
                     text("n = ", b.header.n, ", m = ", b.header.m, ", expected n = ", a.header.n, ", m = ", a.header.m,
                          " as in ", a.name),
                     "give two matrices of the same size and block side");
  }
  const std::uint64_t nb = a.header.blocks_per_side();
  const auto cells = static_cast<double>(nb * nb);
  const std::uint64_t pairs = num_pairs(a.columns, b.rows);
  const std::uint64_t max_blocks = std::min(pairs, std::uint64_t{a.rows.size()} * b.columns.size());
  // A cell stays empty with probability (1 - 1 / cells)^pairs.
  const double expected = -std::expm1(-static_cast<double>(pairs) / cells) * cells;
  const std::uint64_t expected_blocks = std::min(max_blocks, static_cast<std::uint64_t>(std::llround(expected)));
  const std::uint64_t record = output_record_bytes(a.header.m);
  const std::uint64_t m = a.header.m;
  const std::uint64_t needed = pairs_to_saturate(a.largest_element, b.largest_element, m);
  // A block with so many pairs lies in a row of A and a column of B that have as many blocks.
  const std::uint64_t saturating_blocks = std::min(
      {num_with(a.rows, needed) * num_with(b.columns, needed), pairs / needed, max_blocks, UINT64_MAX / (m * m)});
  return {.pairs = pairs,
          .expected_blocks = expected_blocks,
          .max_blocks = max_blocks,
          .expected_bytes = kHeaderBytes + expected_blocks * record,
          .max_bytes = kHeaderBytes + max_blocks * record,
          .saturating_pairs = needed,
          .max_saturated_elements = saturating_blocks * m * m};
}

}  // namespace spmm::tools
