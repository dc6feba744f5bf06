// Matrices as the arrays that SciPy, cuSPARSE and others use: block-CSR (BSR), and CSR, which is BSR of side 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// Someone else's array of indices, 32 or 64 bits each.
class IndexView {
 public:
  /// No indices.
  IndexView() = default;
  /// Indices of 32 bits, which must outlive the view.
  IndexView(std::span<const std::int32_t> values) : narrow_(values.data()), size_(values.size()) {}
  /// Indices of 64 bits.
  IndexView(std::span<const std::int64_t> values) : wide_(values.data()), size_(values.size()) {}
  /// The same of a vector.
  IndexView(const std::vector<std::int32_t>& values) : IndexView(std::span(values)) {}
  /// The same of a vector.
  IndexView(const std::vector<std::int64_t>& values) : IndexView(std::span(values)) {}

  /// Number of indices.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// One index. Values: at < size().
  [[nodiscard]] std::int64_t operator[](std::size_t at) const { return wide_ != nullptr ? wide_[at] : narrow_[at]; }

 private:
  const std::int32_t* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
  std::size_t size_ = 0;
};

/// A matrix in block-CSR arrays that belong to the caller. It need not be square.
/// Shapes: rows x cols elements, both multiples of m; indptr [rows / m + 1]; indices [num_blocks] block columns; data
/// [num_blocks, m, m] row-major. Values: indptr starts with 0, ascends and ends with num_blocks; a block row holds each
/// block column once, in any order.
template <class T>
struct BsrView {
  std::uint64_t rows = 0;     ///< elements, a multiple of m; may be 0
  std::uint64_t cols = 0;     ///< the same
  std::uint32_t m = 1;        ///< elements of a block's side
  IndexView indptr{};         ///< [rows / m + 1]
  IndexView indices{};        ///< [num_blocks]
  std::span<const T> data{};  ///< [num_blocks, m, m]
  std::string_view name{};    ///< in messages of products; none: "matrix A"
};

/// A matrix that owns its block-CSR arrays. Shapes, values: as BsrView; each row's block columns ascend.
template <class T>
struct BsrMatrix {
  std::uint64_t rows = 0;               ///< elements, a multiple of m
  std::uint64_t cols = 0;               ///< the same
  std::uint32_t m = 1;                  ///< elements of a block's side
  std::vector<std::int64_t> indptr{};   ///< [rows / m + 1]
  std::vector<std::int64_t> indices{};  ///< [num_blocks]
  std::vector<T> data{};                ///< [num_blocks, m, m]

  /// The arrays of this matrix, which must outlive the view.
  [[nodiscard]] BsrView<T> view() const {
    return {.rows = rows, .cols = cols, .m = m, .indptr = indptr, .indices = indices, .data = data};
  }

  friend bool operator==(const BsrMatrix&, const BsrMatrix&) = default;
};

/// What a product is written to: alpha * A * B + beta * C, in the blocks of C, all of which the result has. Each
/// element is fma(alpha, chain, beta * c), with beta * c rounded before; integers are exact modulo 2^64; products of
/// uint16_t saturate, alpha is 1 and beta is 0. Blocks of C without pairs have chains of +0.
/// Values: T = type of the product's elements; as BsrView, but blocks of a row ascend.
template <class T>
struct Accumulation {
  const BsrView<T>* c = nullptr;  ///< null: C has the blocks that have a pair, and beta is 0
  bool is_mask = false;           ///< pairs of blocks that C lacks are left out; false: an error
  T alpha{1};                     ///< 1, and beta 0: the bits of A * B
  T beta{0};                      ///< 0: c's data are not read, and may be empty
};

/// Side of the square matrix in which A and B are multiplied: the largest of their sides, at least one block.
/// Errors: ShapeError where A has not as many columns as B has rows, or another block side; FormatError for sides that
/// are above 2^32 - 1 or no multiple of m.
std::uint32_t padded_side(const BsrView<std::uint16_t>& a, const BsrView<std::uint16_t>& b);

/// Reads the caller's arrays, which must outlive the source, as a matrix of n x n elements, padded with zeros where its
/// own sides are shorter. Nothing is copied; records are packed while they are read.
/// Errors: FormatError that names the matrix, the array and the place: the lengths of the arrays, indptr and the block
/// columns are checked here (one pass over both), blocks that are stored twice by the product.
/// Values: name = in messages, if the matrix has none.
std::unique_ptr<Source> make_bsr_source(const BsrView<std::uint16_t>& matrix, std::uint32_t n, std::string name);

/// Blocks in the caller's arrays, in any order. Shapes: index [num_blocks], values [num_blocks, m, m] row-major.
struct BlockListView {
  std::uint32_t n = 0;                      ///< elements of a side, a multiple of m
  std::uint32_t m = 0;                      ///< elements of a block's side
  std::span<const BlockIndex> index{};      ///< [num_blocks]
  std::span<const std::uint16_t> values{};  ///< [num_blocks, m, m]
};

/// Reads the caller's arrays, which must outlive the source. Nothing is copied. Errors: FormatError (lengths).
std::unique_ptr<Source> make_block_source(const BlockListView& matrix, std::string name);

/// A sink that collects a result in block-CSR arrays, of which it takes the first rows x cols elements. `out` must
/// outlive it and is filled in publish(). Memory: the result, once; counted against the engine's limit.
/// Errors: OutOfMemory.
std::unique_ptr<Sink> make_bsr_sink(BsrMatrix<std::uint32_t>& out, std::uint64_t rows, std::uint64_t cols);

/// Reads a whole operand (uint16_t) or result (uint32_t). Errors: as read_matrix().
template <class T>
BsrMatrix<T> read_bsr(const std::filesystem::path& path);
/// An operand.
template <>
BsrMatrix<std::uint16_t> read_bsr<std::uint16_t>(const std::filesystem::path& path);
/// The same of any source.
BsrMatrix<std::uint16_t> read_bsr(const Source& source);
/// A result.
template <>
BsrMatrix<std::uint32_t> read_bsr<std::uint32_t>(const std::filesystem::path& path);

/// Writes a whole matrix in the order given, padded with zeros to a square, atomically. Errors: FormatError as of
/// make_bsr_source(), also for a block that is stored twice; OutputError, IoError.
void write_bsr(const std::filesystem::path& path, const BsrView<std::uint16_t>& matrix,
               const std::string& name = "matrix");
/// The same of a result.
void write_bsr(const std::filesystem::path& path, const BsrView<std::uint32_t>& matrix,
               const std::string& name = "matrix");

}  // namespace spmm
