// Matrices in arrays, block-CSR or a list of blocks: as sources, as sinks of results, and read from and written to
// files.
#include "spmm/arrays.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/formats/format.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kMaxSide = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kChunkBytes = 4u << 20;  // enough to hide the cost of a call, small compared with any matrix

/// "block row", or "row" where blocks are elements.
std::string block_word(std::uint32_t m, const char* word) {
  return m == 1 ? word : std::string("block ") + word;
}

/// Checks the sides of a matrix. Errors: FormatError.
void check_sides(std::uint64_t rows, std::uint64_t cols, std::uint32_t m, const std::string& name) {
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

/// Arrays of a caller, which must outlive it, as records in their order. Of elements T of blocks.
template <class T>
class ArraySource : public Source {
 public:
  explicit ArraySource(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] const MatrixHeader& header() const final { return header_; }
  [[nodiscard]] const std::string& name() const final { return name_; }
  void check_unchanged() const final {}

 protected:
  void check_range(std::uint64_t first, std::uint64_t count) const {
    if (first <= header_.num_blocks && count <= header_.num_blocks - first) return;
    throw std::out_of_range(text(name_, ": blocks ", first, " + ", count, " of ", header_.num_blocks));
  }

  /// Packs one record; returns where the next one goes. Shapes: values [m, m].
  std::byte* pack(BlockIndex index, const T* values, std::byte* dst) const {
    const std::uint64_t bytes = std::uint64_t{header_.m} * header_.m * sizeof(T);
    write_index(dst, index);
    std::memcpy(dst + kIndexBytes, values, bytes);
    return dst + kIndexBytes + bytes;
  }

  std::string name_;
  MatrixHeader header_;
};

/// Block-CSR arrays, checked.
template <class T>
class BsrSource final : public ArraySource<T> {
 public:
  /// Of a matrix padded to n x n elements. Errors: FormatError that names array and place: lengths, indptr, columns.
  BsrSource(const BsrView<T>& matrix, std::uint32_t n, std::string name)
      : ArraySource<T>(std::move(name)), matrix_(matrix) {
    check_sides(matrix_.rows, matrix_.cols, matrix_.m, name_);
    check_indptr();
    if (n < std::max(matrix_.rows, matrix_.cols)) throw std::logic_error(name_ + ": does not fit the padded side");
    header_ = {.n = n, .m = matrix_.m, .num_blocks = static_cast<std::uint32_t>(matrix_.indices.size())};
    check_columns();
    io::check_memory_shape(header_, name_);
  }

  /// "indices[5] (block row 2)".
  [[nodiscard]] std::string place(std::uint64_t block) const override {
    return text("indices[", block, "] (", block_word(matrix_.m, "row"), " ", row_of(block), ")");
  }

  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    this->check_range(first, count);
    if (count == 0) return;
    std::uint64_t row = row_of(first);
    for (std::uint64_t b = first; b < first + count; ++b) {
      while (begin_of(row + 1) <= b) ++row;
      const BlockIndex index{.i = static_cast<std::uint32_t>(row), .j = static_cast<std::uint32_t>(matrix_.indices[b])};
      dst = this->pack(index, matrix_.data.data() + b * matrix_.m * matrix_.m, dst);
    }
  }

  /// Errors: FormatError for a block that is stored twice.
  void check_distinct() const {
    std::vector<std::pair<std::int64_t, std::uint64_t>> row;  // block column and number
    for (std::size_t r = 0; r + 1 < matrix_.indptr.size(); ++r) {
      row.clear();
      for (std::uint64_t b = begin_of(r); b < begin_of(r + 1); ++b) row.emplace_back(matrix_.indices[b], b);
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

 private:
  using ArraySource<T>::name_;
  using ArraySource<T>::header_;

  [[nodiscard]] std::uint64_t begin_of(std::uint64_t row) const {
    return static_cast<std::uint64_t>(matrix_.indptr[row]);
  }

  /// Block row of a block.
  [[nodiscard]] std::uint64_t row_of(std::uint64_t block) const {
    std::uint64_t low = 0;
    for (std::uint64_t high = matrix_.indptr.size() - 1; high - low > 1;) {
      const std::uint64_t middle = low + (high - low) / 2;
      (begin_of(middle) <= block ? low : high) = middle;
    }
    return low;
  }

  void check_indptr() const {
    const IndexView& indptr = matrix_.indptr;
    const std::uint64_t num_rows = matrix_.rows / matrix_.m;
    if (indptr.size() != num_rows + 1) {
      throw FormatError(name_ + ", indptr",
                        text("has ", indptr.size(), " entries, expected ", num_rows + 1, " for ", num_rows, " ",
                             block_word(matrix_.m, "rows")),
                        "give the begin of each row, and the end of the last");
    }
    if (indptr[0] != 0) {
      throw FormatError(name_ + ", indptr[0]", text("is ", indptr[0], ", expected 0"), "start with 0");
    }
    for (std::uint64_t r = 0; r < num_rows; ++r) {
      if (indptr[r + 1] >= indptr[r]) continue;
      throw FormatError(text(name_, ", indptr[", r + 1, "]"),
                        text("is ", indptr[r + 1], ", less than ", indptr[r], " before it"),
                        "indptr says where each row begins in indices: it must not descend");
    }
    const std::uint64_t num_blocks = begin_of(num_rows);
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

  void check_columns() const {
    const auto num_cols = static_cast<std::int64_t>(matrix_.cols / matrix_.m);
    for (std::uint64_t b = 0; b < header_.num_blocks; ++b) {
      const std::int64_t col = matrix_.indices[b];
      if (col >= 0 && col < num_cols) continue;
      throw FormatError(
          name_ + ", " + place(b),
          text(block_word(matrix_.m, "column"), " ", col, " is out of range, expected 0 to ", num_cols - 1),
          text("correct the index or the number of columns",
               matrix_.m == 1 ? "" : "; indices count blocks, not elements"));
    }
  }

  BsrView<T> matrix_;
};

/// A list of blocks.
template <class T>
class BlockSource final : public ArraySource<T> {
 public:
  /// Shapes: index [num_blocks], values [num_blocks, m, m]. Errors: FormatError (lengths).
  BlockSource(std::uint32_t n, std::uint32_t m, std::span<const BlockIndex> index, std::span<const T> values,
              std::string name)
      : ArraySource<T>(std::move(name)), index_(index), values_(values) {
    const std::string& called = this->name_;
    if (index.size() > kMaxSide) {
      throw FormatError(called, text("the matrix has ", index.size(), " blocks, expected at most ", kMaxSide),
                        "use larger blocks, or several matrices");
    }
    this->header_ = {.n = n, .m = m, .num_blocks = static_cast<std::uint32_t>(index.size())};
    io::check_memory_shape(this->header_, called);
    const std::uint64_t elements = std::uint64_t{m} * m;
    if (values.size() == index.size() * elements) return;
    throw FormatError(text(called, ", block ", values.size() / elements),
                      text(values.size(), " values for ", index.size(), " blocks, expected ", index.size() * elements,
                           " (m = ", m, ")"),
                      "fill values with m * m elements for each entry of index");
  }

  /// "block 5".
  [[nodiscard]] std::string place(std::uint64_t block) const override { return text("block ", block); }

  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    this->check_range(first, count);
    const std::uint64_t elements = std::uint64_t{this->header_.m} * this->header_.m;
    for (std::uint64_t b = first; b < first + count; ++b) {
      dst = this->pack(index_[b], values_.data() + b * elements, dst);
    }
  }

 private:
  std::span<const BlockIndex> index_;
  std::span<const T> values_;
};

/// Copies the values of packed records behind those that are there. Values: m = side of their blocks.
template <class T>
void append_values(const std::byte* records, std::uint64_t count, std::uint32_t m, std::vector<T>& values) {
  const std::uint64_t elements = std::uint64_t{m} * m;
  const std::uint64_t record = record_bytes<T>(m);
  const std::size_t before = values.size();
  values.resize(before + count * elements);  // cleared while it is in the cache, in slices of 1 MB
  T* to = values.data() + before;
  if (elements == 1) {  // one move, not a call
    for (std::uint64_t x = 0; x < count; ++x) std::memcpy(to + x, records + x * record + kIndexBytes, sizeof *to);
    return;
  }
  for (std::uint64_t x = 0; x < count; ++x, to += elements) {
    std::memcpy(to, records + x * record + kIndexBytes, elements * sizeof *to);
  }
}

/// Fills a list of blocks.
template <class T>
struct BlockArrays {
  BlockList<T> matrix{};

  void reserve(std::uint64_t most, std::uint32_t m) {
    reserve_pages(matrix.index, most);
    reserve_pages(matrix.values, most * m * m);
  }
  void take(const std::byte* records, std::uint64_t count, std::uint32_t m) {
    const std::size_t before = matrix.index.size();
    matrix.index.resize(before + count);
    for (std::uint64_t x = 0; x < count; ++x) {
      matrix.index[before + x] = read_index(records + x * record_bytes<T>(m));
    }
    append_values(records, count, m, matrix.values);
  }
  void complete(const MatrixHeader& header) {
    matrix.n = header.n;
    matrix.m = header.m;
  }
};

/// Fills block-CSR arrays of rows x cols elements with the blocks of a result, which ascend.
struct BsrArrays {
  BsrMatrix<std::uint32_t> matrix{};
  std::uint64_t row = 0;  ///< rows up to this one have their begin

  void reserve(std::uint64_t most, std::uint32_t m) {
    reserve_pages(matrix.indices, most);
    reserve_pages(matrix.data, most * m * m);
  }
  void take(const std::byte* records, std::uint64_t count, std::uint32_t m) {
    const std::size_t before = matrix.indices.size();
    if (matrix.indptr.empty()) matrix.indptr.assign(matrix.rows / m + 1, 0);
    matrix.indices.resize(before + count);
    for (std::uint64_t x = 0; x < count; ++x) {
      const BlockIndex index = read_index(records + x * output_record_bytes(m));
      while (row < index.i) matrix.indptr.at(++row) = static_cast<std::int64_t>(before + x);
      matrix.indices[before + x] = index.j;
    }
    append_values(records, count, m, matrix.data);
  }
  void complete(const MatrixHeader& header) {
    matrix.m = header.m;
    matrix.indptr.resize(matrix.rows / header.m + 1, 0);
    std::fill(matrix.indptr.begin() + static_cast<std::ptrdiff_t>(row) + 1, matrix.indptr.end(),
              static_cast<std::int64_t>(matrix.indices.size()));
  }
};

/// Puts records into arrays as they come; the caller's matrix changes when the result is published.
template <class Arrays>
class MemorySink final : public Sink {
 public:
  MemorySink(decltype(Arrays::matrix)& out, Arrays arrays) : out_(out), arrays_(std::move(arrays)) {}

  [[nodiscard]] bool keeps_records() const override { return true; }

  void expect(std::uint32_t m, std::uint64_t most_blocks) override {
    m_ = m;
    if (most_blocks != 0) arrays_.reserve(most_blocks, m);
  }

  void write(std::uint64_t, std::span<const std::byte> records, Release) override {
    if (m_ == 0) throw std::logic_error(text(kName, ": write() before expect()"));
    const std::uint64_t count = records.size() / output_record_bytes(m_);
    check_num_output_blocks(num_blocks_ + count);
    try {
      arrays_.take(records.data(), count, m_);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(
          kName, text("no memory for the result after ", human_bytes(num_blocks_ * output_record_bytes(m_)), " of it"),
          "multiply to a file instead, which needs memory for a part of the result only");
    }
    num_blocks_ += count;
  }

  void finish(const MatrixHeader& header) override {
    if (num_blocks_ != header.num_blocks) {
      throw std::logic_error(
          text(kName, ": finish() with ", header.num_blocks, " blocks after ", num_blocks_, " blocks"));
    }
    arrays_.complete(header);
    finished_ = true;
  }

  void publish() override {
    if (!std::exchange(finished_, false)) throw std::logic_error(text(kName, ": publish() without finish()"));
    out_ = std::move(arrays_.matrix);
  }

 private:
  static constexpr const char* kName = "result in memory";

  decltype(Arrays::matrix)& out_;
  Arrays arrays_;
  std::uint32_t m_ = 0;
  std::uint64_t num_blocks_ = 0;
  bool finished_ = false;
};

/// Numbers of the blocks by ascending indices, and those of one index as they come.
std::vector<std::uint32_t> ascending(const std::vector<BlockIndex>& index) {
  std::vector<std::uint32_t> order(index.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t x, std::uint32_t y) { return index[x] != index[y] ? index[x] < index[y] : x < y; });
  return order;
}

/// Reads a whole file, or another source of records of T. Blocks keep its order. Errors: FormatError, also for a block
/// that is stored twice; OutOfMemory.
template <class T>
BlockList<T> read_list(const Source& file) {
  const MatrixHeader& header = file.header();
  const std::uint64_t record = record_bytes<T>(header.m);
  const std::uint64_t file_bytes = kHeaderBytes + header.num_blocks * record;
  const std::uint32_t side = header.blocks_per_side();
  const std::uint64_t per_chunk = std::max<std::uint64_t>(1, std::min(kChunkBytes, file_bytes / 8) / record);
  try {
    std::vector<std::byte> chunk(std::min<std::uint64_t>(per_chunk, header.num_blocks) * record);
    BlockArrays<T> arrays;
    arrays.matrix.index.reserve(header.num_blocks);
    arrays.matrix.values.reserve(std::size_t{header.num_blocks} * header.m * header.m);
    bool ascends = true;
    BlockIndex before;
    for (std::uint64_t first = 0; first < header.num_blocks; first += per_chunk) {
      const std::uint64_t count = std::min(per_chunk, header.num_blocks - first);
      file.read(first, count, chunk.data());
      for (std::uint64_t r = first; r < first + count; ++r) {
        const BlockIndex at = read_index(chunk.data() + (r - first) * record);
        if (at.i >= side || at.j >= side) throw_index_out_of_range(file, r, at);
        // A file of holes says the same block again and again: no memory is taken for it.
        if (r > 0 && at == before) throw_duplicate_block(file, r - 1, r, at);
        ascends = ascends && (r == 0 || before < at);
        before = at;
      }
      arrays.take(chunk.data(), count, header.m);
    }
    arrays.complete(header);
    file.check_unchanged();
    if (ascends) return std::move(arrays.matrix);
    const std::vector<BlockIndex>& index = arrays.matrix.index;
    const std::vector<std::uint32_t> order = ascending(index);
    const auto twice = std::adjacent_find(order.begin(), order.end(),
                                          [&](std::uint32_t x, std::uint32_t y) { return index[x] == index[y]; });
    if (twice != order.end()) throw_duplicate_block(file, twice[0], twice[1], index[*twice]);
    return std::move(arrays.matrix);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(file.name(), text("no memory for a matrix of ", human_bytes(file_bytes)),
                      "multiply the files directly, which needs less memory, or use a machine with more");
  }
}

template <class T>
BsrMatrix<T> to_bsr(BlockList<T> list) {
  BsrMatrix<T> matrix{.rows = list.n, .cols = list.n, .m = list.m};
  matrix.indptr.assign(std::size_t{list.n} / list.m + 1, 0);
  matrix.indices.reserve(list.index.size());
  if (std::is_sorted(list.index.begin(), list.index.end())) {
    for (const BlockIndex& at : list.index) matrix.indices.push_back(at.j);
    matrix.data = std::move(list.values);
  } else {
    matrix.data.reserve(list.values.size());
    for (const std::uint32_t b : ascending(list.index)) {
      matrix.indices.push_back(list.index[b].j);
      matrix.data.insert(matrix.data.end(), list.block(b), list.block(b) + std::size_t{list.m} * list.m);
    }
  }
  for (const BlockIndex& at : list.index) ++matrix.indptr[std::size_t{at.i} + 1];
  std::partial_sum(matrix.indptr.begin(), matrix.indptr.end(), matrix.indptr.begin());
  return matrix;
}

/// Writes all records of elements T of a source.
template <class T>
void write_records(const std::filesystem::path& path, const Source& source) {
  const std::uint64_t record = record_bytes<T>(source.header().m);
  const std::uint64_t total = source.header().num_blocks;
  const std::uint64_t per_chunk = std::max<std::uint64_t>(1, kChunkBytes / record);
  std::vector<std::byte> chunk(std::min(per_chunk, total) * record);
  io::OutputFile file(path, {});
  file.expect_bytes(kHeaderBytes + total * record);
  for (std::uint64_t first = 0; first < total; first += per_chunk) {
    const std::uint64_t count = std::min(per_chunk, total - first);
    source.read(first, count, chunk.data());
    file.write_at(kHeaderBytes + first * record, {chunk.data(), count * record});
  }
  file.finish(source.header());
  file.publish();
}

template <class T>
void write_list(const std::filesystem::path& path, const BlockList<T>& matrix) {
  write_records<T>(path, BlockSource<T>(matrix.n, matrix.m, matrix.index, matrix.values, path.string()));
}

template <class T>
void write_arrays(const std::filesystem::path& path, const BsrView<T>& matrix, const std::string& name) {
  check_sides(matrix.rows, matrix.cols, matrix.m, name);
  const auto side = static_cast<std::uint32_t>(std::max<std::uint64_t>({matrix.rows, matrix.cols, matrix.m}));
  const BsrSource<T> source(matrix, side, name);
  source.check_distinct();
  write_records<T>(path, source);
}

std::string name_of(const BsrView<std::uint16_t>& matrix, std::string usual) {
  return matrix.name.empty() ? std::move(usual) : std::string(matrix.name);
}

}  // namespace

std::uint32_t padded_side(const BsrView<std::uint16_t>& a, const BsrView<std::uint16_t>& b) {
  const std::string name_a = name_of(a, "matrix A");
  const std::string name_b = name_of(b, "matrix B");
  check_sides(a.rows, a.cols, a.m, name_a);
  check_sides(b.rows, b.cols, b.m, name_b);
  const std::string both = name_a + " and " + name_b;
  if (a.m != b.m) {
    throw ShapeError(both, text("blocks of side ", a.m, " against ", b.m), "store both with blocks of the same side");
  }
  if (a.cols != b.rows) {
    throw ShapeError(both, text("shapes ", a.rows, " x ", a.cols, " and ", b.rows, " x ", b.cols),
                     "multiply matrices where the first has as many columns as the second has rows");
  }
  return static_cast<std::uint32_t>(std::max<std::uint64_t>({a.rows, a.cols, b.cols, a.m}));
}

std::unique_ptr<Source> make_bsr_source(const BsrView<std::uint16_t>& matrix, std::uint32_t n, std::string name) {
  return std::make_unique<BsrSource<std::uint16_t>>(matrix, n, name_of(matrix, std::move(name)));
}

std::unique_ptr<Source> make_block_source(const BlockListView& matrix, std::string name) {
  return std::make_unique<BlockSource<std::uint16_t>>(matrix.n, matrix.m, matrix.index, matrix.values, std::move(name));
}

std::unique_ptr<Source> make_memory_source(const BlockMatrix& matrix, std::string name) {
  return make_block_source({.n = matrix.n, .m = matrix.m, .index = matrix.index, .values = matrix.values},
                           std::move(name));
}

std::unique_ptr<Sink> make_memory_sink(ProductMatrix& out) {
  return std::make_unique<MemorySink<BlockArrays<std::uint32_t>>>(out, BlockArrays<std::uint32_t>{});
}

std::unique_ptr<Sink> make_bsr_sink(BsrMatrix<std::uint32_t>& out, std::uint64_t rows, std::uint64_t cols) {
  return std::make_unique<MemorySink<BsrArrays>>(out, BsrArrays{.matrix = {.rows = rows, .cols = cols}});
}

MatrixHeader read_header(const std::filesystem::path& path, ElementType type) {
  return io::InputFile(path, type).header();
}

BlockMatrix read_matrix(const std::filesystem::path& path) {
  return read_list<std::uint16_t>(io::InputFile(path, ElementType::u16));
}

ProductMatrix read_product(const std::filesystem::path& path) {
  return read_list<std::uint32_t>(io::InputFile(path, ElementType::u32));
}

void write_matrix(const std::filesystem::path& path, const BlockMatrix& matrix) {
  write_list(path, matrix);
}

void write_product(const std::filesystem::path& path, const ProductMatrix& matrix) {
  write_list(path, matrix);
}

template <>
BsrMatrix<std::uint16_t> read_bsr<std::uint16_t>(const std::filesystem::path& path) {
  return to_bsr(read_matrix(path));
}

BsrMatrix<std::uint16_t> read_bsr(const Source& source) {
  return to_bsr(read_list<std::uint16_t>(source));
}

template <>
BsrMatrix<std::uint32_t> read_bsr<std::uint32_t>(const std::filesystem::path& path) {
  return to_bsr(read_product(path));
}

void write_bsr(const std::filesystem::path& path, const BsrView<std::uint16_t>& matrix, const std::string& name) {
  write_arrays(path, matrix, name);
}

void write_bsr(const std::filesystem::path& path, const BsrView<std::uint32_t>& matrix, const std::string& name) {
  write_arrays(path, matrix, name);
}

}  // namespace spmm
