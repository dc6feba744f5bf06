// The head of a .npy array.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/convert/byte_input.hpp"

namespace spmm::tools {

/// What the elements of an array are.
enum class NpyKind : std::uint8_t { boolean, signed_integer, unsigned_integer, real, bytes, text };

struct NpyHeader {
  NpyKind kind = NpyKind::signed_integer;
  std::uint32_t item_bytes = 8;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;

  /// Product of the shape. Values: checked against the bytes of the file when it is read.
  [[nodiscard]] std::uint64_t num_items() const;
};

/// Reads the head and leaves the input at the first element; checks that the rest is as long as the shape says.
/// Source: numpy.lib.format, versions 1 to 3.
/// Errors: FormatError (also for complex numbers, objects and structures), IoError.
NpyHeader read_npy_header(ByteInput& input);

/// The head of an array in C order with little-endian elements. Values: descr such as "<i8".
std::string make_npy_header(const std::string& descr, const std::vector<std::uint64_t>& shape);

}  // namespace spmm::tools
