// Dense matrices of spmm-dense: random ones, and what is printed of them.
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

/// Elements uniform in the range (f32: any of the type between the ends); the same for every number of threads.
std::vector<std::byte> random_dense(dense::Type type, std::uint64_t count, ValueRange range, std::uint64_t key,
                                    unsigned num_threads);

/// Whether elements are those of A and B, or of C.
enum class Operand : std::uint8_t { input, result };

/// Writes one matrix to PATH.txt, blanks between elements, and PATH.csv, a row a line; f32 with as many digits as give
/// the same number again. Shapes: elements [rows, cols]. Errors: OutputError, IoError.
void write_dense(const std::string& path, dense::Type type, Operand operand, std::span<const std::byte> elements,
                 std::uint32_t cols);

}  // namespace spmm::tools
