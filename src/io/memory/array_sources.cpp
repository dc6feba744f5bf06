// The caller's arrays, checked and packed as records.
#include "io/memory/array_sources.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/records/head.hpp"
#include "base/text.hpp"
#include "io/formats/format.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace io {
namespace {

constexpr std::uint64_t kMaxSide = std::numeric_limits<std::uint32_t>::max();

/// "block row", or "row" where blocks are elements.
std::string block_word(std::uint32_t m, const char* word) {
  return m == 1 ? word : std::string("block ") + word;
}

void check_range(const Source& source, std::uint64_t first, std::uint64_t count) {
  const std::uint64_t num_blocks = source.header().num_blocks;
  if (first <= num_blocks && count <= num_blocks - first) return;
  throw std::out_of_range(text(source.name(), ": blocks ", first, " + ", count, " of ", num_blocks));
}

}  // namespace

void check_bsr_sides(std::uint64_t rows, std::uint64_t cols, std::uint32_t m, const std::string& name) {
  if (m == 0 || m > kMaxBlockDim) {
    throw FormatError(name, text("block side m is ", m, ", expected 1 to ", kMaxBlockDim),
                      "store the matrix with blocks of such a side");
  }
  for (const std::uint64_t side : {rows, cols}) {
    if (side <= kMaxSide && side % m == 0) continue;
    throw FormatError(
        name,
        text("has ", rows, " x ", cols, " elements, expected at most ", kMaxSide, " of both, multiples of m = ", m),
        "pad the matrix with zeros to multiples of the block side");
  }
}

template <class T>
BsrSource<T>::BsrSource(const BsrView<T>& matrix, std::uint32_t n, std::string name)
    : matrix_(matrix), name_(std::move(name)) {
  check_bsr_sides(matrix_.rows, matrix_.cols, matrix_.m, name_);
  check_indptr();
  if (n < std::max(matrix_.rows, matrix_.cols)) throw std::logic_error(name_ + ": does not fit the padded side");
  header_ = {.n = n, .m = matrix_.m, .num_blocks = static_cast<std::uint32_t>(matrix_.indices.size())};
  check_columns();
  check_memory_shape(header_, name_);
}

template <class T>
void BsrSource<T>::check_indptr() const {
  const IndexView& indptr = matrix_.indptr;
  const std::uint64_t num_rows = matrix_.rows / matrix_.m;
  if (indptr.size() != num_rows + 1) {
    throw FormatError(name_ + ", indptr",
                      text("has ", indptr.size(), " entries, expected ", num_rows + 1, " for ", num_rows, " ",
                           block_word(matrix_.m, "rows")),
                      "give the begin of each row, and the end of the last");
  }
  if (indptr[0] != 0) throw FormatError(name_ + ", indptr[0]", text("is ", indptr[0], ", expected 0"), "start with 0");
  for (std::uint64_t r = 0; r < num_rows; ++r) {
    if (indptr[r + 1] >= indptr[r]) continue;
    throw FormatError(text(name_, ", indptr[", r + 1, "]"),
                      text("is ", indptr[r + 1], ", less than ", indptr[r], " before it"),
                      "indptr says where each row begins in indices: it must not descend");
  }
  const auto num_blocks = static_cast<std::uint64_t>(indptr[num_rows]);
  if (num_blocks != matrix_.indices.size()) {
    throw FormatError(name_ + ", indices",
                      text("has ", matrix_.indices.size(), " entries, expected ", num_blocks, ", the end of indptr"),
                      "give an index for each stored block");
  }
  if (num_blocks > kMaxSide) {
    throw FormatError(name_, text("has ", num_blocks, " blocks, expected at most ", kMaxSide),
                      "use larger blocks, or several matrices");
  }
  const std::uint64_t elements = num_blocks * matrix_.m * matrix_.m;
  if (matrix_.data.size() == elements) return;
  throw FormatError(name_ + ", data",
                    text("has ", matrix_.data.size(), " elements, expected ", elements, " for ", num_blocks,
                         " blocks of ", matrix_.m, " x ", matrix_.m),
                    "give m * m elements for each entry of indices");
}

template <class T>
void BsrSource<T>::check_columns() const {
  const auto num_cols = static_cast<std::int64_t>(matrix_.cols / matrix_.m);
  for (std::uint64_t b = 0; b < header_.num_blocks; ++b) {
    const std::int64_t col = matrix_.indices[b];
    if (col >= 0 && col < num_cols) continue;
    throw FormatError(name_ + ", " + place(b),
                      text(block_word(matrix_.m, "column"), " ", col, " is out of range, expected 0 to ", num_cols - 1),
                      text("correct the index or the number of columns",
                           matrix_.m == 1 ? "" : "; indices count blocks, not elements"));
  }
}

template <class T>
void BsrSource<T>::check_distinct() const {
  std::vector<std::pair<std::int64_t, std::uint64_t>> row;  // block column and number
  for (std::size_t r = 0; r + 1 < matrix_.indptr.size(); ++r) {
    row.clear();
    const auto end = static_cast<std::uint64_t>(matrix_.indptr[r + 1]);
    for (auto b = static_cast<std::uint64_t>(matrix_.indptr[r]); b < end; ++b) row.emplace_back(matrix_.indices[b], b);
    std::sort(row.begin(), row.end());
    for (std::size_t x = 1; x < row.size(); ++x) {
      if (row[x].first != row[x - 1].first) continue;
      throw FormatError(name_ + ", " + place(row[x].second),
                        text("block (", r, ", ", row[x].first, ") was stored before in ", place(row[x - 1].second),
                             ", expected each block once"),
                        "remove one of the two, or merge them");
    }
  }
}

template <class T>
void BsrSource<T>::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  check_range(*this, first, count);
  if (count == 0) return;
  const std::uint64_t elements = std::uint64_t{matrix_.m} * matrix_.m;
  const std::uint64_t bytes = elements * sizeof(T);
  std::uint64_t row = row_of(first);
  for (std::uint64_t b = first; b < first + count; ++b, dst += kIndexBytes + bytes) {
    while (static_cast<std::uint64_t>(matrix_.indptr[row + 1]) <= b) ++row;
    write_index(dst, {.i = static_cast<std::uint32_t>(row), .j = static_cast<std::uint32_t>(matrix_.indices[b])});
    std::memcpy(dst + kIndexBytes, matrix_.data.data() + b * elements, bytes);
  }
}

template <class T>
std::string BsrSource<T>::place(std::uint64_t block) const {
  return text("indices[", block, "] (", block_word(matrix_.m, "row"), " ", row_of(block), ")");
}

template <class T>
std::uint64_t BsrSource<T>::row_of(std::uint64_t block) const {
  std::uint64_t low = 0;
  for (std::uint64_t high = matrix_.indptr.size() - 1; high - low > 1;) {
    const std::uint64_t middle = low + (high - low) / 2;
    (static_cast<std::uint64_t>(matrix_.indptr[middle]) <= block ? low : high) = middle;
  }
  return low;
}

template <class T>
BlockSource<T>::BlockSource(std::uint32_t n, std::uint32_t m, std::span<const BlockIndex> index,
                            std::span<const T> values, std::string name)
    : index_(index), values_(values), name_(std::move(name)) {
  check_matrix_sizes(n, m, index.size(), values.size(), name_);
  header_ = {.n = n, .m = m, .num_blocks = static_cast<std::uint32_t>(index.size())};
}

template <class T>
std::string BlockSource<T>::place(std::uint64_t block) const {
  return text("block ", block);
}

template <class T>
void BlockSource<T>::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  check_range(*this, first, count);
  const std::uint64_t elements = std::uint64_t{header_.m} * header_.m;
  for (std::uint64_t r = first; r < first + count; ++r, dst += record_bytes<T>(header_.m)) {
    write_index(dst, index_[r]);
    std::memcpy(dst + kIndexBytes, values_.data() + r * elements, elements * sizeof(T));
  }
}

template class BsrSource<std::uint16_t>;
template class BsrSource<std::uint32_t>;
template class BlockSource<std::uint16_t>;
template class BlockSource<std::uint32_t>;

}  // namespace io

std::uint32_t padded_side(const BsrView<std::uint16_t>& a, const BsrView<std::uint16_t>& b, const std::string& name_a,
                          const std::string& name_b) {
  io::check_bsr_sides(a.rows, a.cols, a.m, name_a);
  io::check_bsr_sides(b.rows, b.cols, b.m, name_b);
  const auto shape = [](const BsrView<std::uint16_t>& x) { return text(x.rows, " x ", x.cols); };
  const std::string both = name_a + " and " + name_b;
  if (a.m != b.m) {
    throw ShapeError(both, text("blocks of side ", a.m, " against ", b.m), "store both with blocks of the same side");
  }
  if (a.cols != b.rows) {
    throw ShapeError(both, text("shapes ", shape(a), " and ", shape(b)),
                     "multiply matrices where the first has as many columns as the second has rows");
  }
  return static_cast<std::uint32_t>(std::max<std::uint64_t>({a.rows, a.cols, b.cols, a.m}));
}

std::unique_ptr<Source> make_bsr_source(const BsrView<std::uint16_t>& matrix, std::uint32_t n, std::string name) {
  return std::make_unique<io::BsrSource<std::uint16_t>>(matrix, n, std::move(name));
}

std::unique_ptr<Source> make_block_source(const BlockListView& matrix, std::string name) {
  return std::make_unique<io::BlockSource<std::uint16_t>>(matrix.n, matrix.m, matrix.index, matrix.values,
                                                          std::move(name));
}

std::unique_ptr<Source> make_memory_source(const BlockMatrix& matrix, std::string name) {
  return make_block_source({.n = matrix.n, .m = matrix.m, .index = matrix.index, .values = matrix.values},
                           std::move(name));
}

}  // namespace spmm
