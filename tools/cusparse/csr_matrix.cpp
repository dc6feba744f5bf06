#include "tools/cusparse/csr_matrix.hpp"

#include <algorithm>
#include <numeric>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMaxEntries = INT32_MAX;
constexpr std::uint64_t kBlocksAtOnce = 4096;

[[noreturn]] void refuse(const char* what, std::uint64_t count) {
  throw OutOfMemory("CSR", text(count, " ", what, " are more than 32-bit offsets can name"), "use a smaller matrix");
}

/// Numbers of the blocks by (i, j), and where those of each block row begin.
struct BlockOrder {
  std::vector<std::uint32_t> blocks;
  std::vector<std::uint64_t> row_begin;
};

BlockOrder order_blocks(const BlockMatrix& matrix, unsigned num_threads) {
  const std::uint64_t num_rows = matrix.header().blocks_per_side();
  BlockOrder order{.blocks = std::vector<std::uint32_t>(matrix.index.size()),
                   .row_begin = std::vector<std::uint64_t>(num_rows + 1)};
  for (const BlockIndex& index : matrix.index) ++order.row_begin[index.i + 1];
  std::partial_sum(order.row_begin.begin(), order.row_begin.end(), order.row_begin.begin());
  std::vector<std::uint64_t> next(order.row_begin.begin(), order.row_begin.end() - 1);
  for (std::uint32_t b = 0; b < matrix.index.size(); ++b) order.blocks[next[matrix.index[b].i]++] = b;
  parallel_for(num_threads, num_rows, kBlocksAtOnce, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      std::sort(order.blocks.begin() + static_cast<std::ptrdiff_t>(order.row_begin[i]),
                order.blocks.begin() + static_cast<std::ptrdiff_t>(order.row_begin[i + 1]),
                [&](std::uint32_t x, std::uint32_t y) { return matrix.index[x].j < matrix.index[y].j; });
    }
  });
  return order;
}

/// Calls entry(column, value) for the elements of one row of a block row that are not zero.
template <class Entry>
void for_row(const BlockMatrix& matrix, const BlockOrder& order, std::uint64_t i, std::uint32_t row,
             const Entry& entry) {
  for (std::uint64_t at = order.row_begin[i]; at < order.row_begin[i + 1]; ++at) {
    const std::uint32_t b = order.blocks[at];
    const std::uint16_t* const values = matrix.block(b) + std::uint64_t{row} * matrix.m;
    for (std::uint32_t c = 0; c < matrix.m; ++c) {
      if (values[c] != 0) entry(matrix.index[b].j * matrix.m + c, values[c]);
    }
  }
}

/// Calls row_body(block row, row within it, row of the matrix) for all rows.
template <class Body>
void for_all_rows(const BlockMatrix& matrix, unsigned num_threads, const Body& row_body) {
  parallel_for(num_threads, matrix.header().blocks_per_side(), kBlocksAtOnce,
               [&](std::uint64_t begin, std::uint64_t end) {
                 for (std::uint64_t i = begin; i < end; ++i) {
                   for (std::uint32_t r = 0; r < matrix.m; ++r) row_body(i, r, i * matrix.m + r);
                 }
               });
}

}  // namespace

CsrMatrix to_csr(const BlockMatrix& matrix, unsigned num_threads) {
  if (matrix.n > kMaxEntries) refuse("rows", matrix.n);
  const BlockOrder order = order_blocks(matrix, num_threads);
  std::vector<std::uint64_t> offsets(std::uint64_t{matrix.n} + 1);
  for_all_rows(matrix, num_threads, [&](std::uint64_t i, std::uint32_t r, std::uint64_t row) {
    std::uint64_t count = 0;
    for_row(matrix, order, i, r, [&](std::uint32_t, std::uint16_t) { ++count; });
    offsets[row + 1] = count;
  });
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  if (offsets.back() > kMaxEntries) refuse("elements", offsets.back());
  CsrMatrix csr{.rows = matrix.n, .offsets = {}, .columns = {}, .values = {}};
  csr.offsets.assign(offsets.begin(), offsets.end());
  csr.columns.resize(offsets.back());
  csr.values.resize(offsets.back());
  for_all_rows(matrix, num_threads, [&](std::uint64_t i, std::uint32_t r, std::uint64_t row) {
    std::uint64_t at = offsets[row];
    for_row(matrix, order, i, r, [&](std::uint32_t column, std::uint16_t value) {
      csr.columns[at] = static_cast<std::int32_t>(column);
      csr.values[at++] = value;
    });
  });
  return csr;
}

std::uint64_t count_products(const CsrMatrix& a, const CsrMatrix& b) {
  std::uint64_t products = 0;
  for (const std::int32_t column : a.columns) {
    const auto row = static_cast<std::size_t>(column);
    products += static_cast<std::uint64_t>(b.offsets[row + 1] - b.offsets[row]);
  }
  return products;
}

}  // namespace spmm::tools
