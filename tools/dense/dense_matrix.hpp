// Dense matrices of spmm-dense: random ones, and text and CSV files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/dense/dense_multiply.hpp"

namespace spmm::tools {

/// Values of random elements, both ends included.
struct ValueRange {
  double low = 0;
  double high = 0;
};

/// What --range is where it is not given: -10:10; u16: 0:1023, whose sums begin to saturate near K = 16,000, where the
/// check still sees every term.
std::string default_range(dense::Type type);

/// "-10:10" -> ends that elements of the type can have; whole numbers but for f32. Errors: UsageError names `where`.
ValueRange parse_range(const std::string& text, dense::Type type, const std::string& where);

/// An operand of a product. Shapes: elements [rows, cols] of the type's input elements, row-major.
struct DenseMatrix {
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::vector<std::byte> elements;
};

/// Elements uniform in the range (f32: any of the type between the ends); the same for every number of threads.
DenseMatrix random_dense(dense::Type type, std::uint32_t rows, std::uint32_t cols, ValueRange range, std::uint64_t key,
                         unsigned num_threads);

/// Reads one matrix, a row per line; elements stand between commas where the line has one, else between blanks. Empty
/// lines do not count.
/// Errors: InputError, IoError, FormatError (rows of different lengths, no such element of the type, no element).
DenseMatrix read_dense(const std::string& path, dense::Type type);

/// Whether elements are those of A and B, or of C.
enum class Operand : std::uint8_t { input, result };

/// Writes one matrix as read_dense() reads it; f32 with as many digits as give the same number again.
/// Errors: OutputError, IoError.
void write_dense(const std::string& path, dense::Type type, Operand operand, std::span<const std::byte> elements,
                 std::uint32_t cols, char separator);

}  // namespace spmm::tools
