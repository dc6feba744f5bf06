// Elements of a matrix as items of a NumPy array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "tools/convert/convert_options.hpp"

namespace spmm::tools {

struct ArrayElements {
  ArrayType type = ArrayType::int64;
  double scale = 1;
  std::string name;  ///< of the file they come from, for messages

  [[nodiscard]] std::size_t item_bytes() const;
  /// "<i8".
  [[nodiscard]] const char* descr() const;
  /// Shapes: dst [values.size() * item_bytes()]. Errors: FormatError (a value that the type does not hold).
  void put(std::byte* dst, std::span<const std::uint32_t> values) const;
};

}  // namespace spmm::tools
