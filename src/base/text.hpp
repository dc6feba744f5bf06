// Building messages.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace spmm {

/// Concatenates its arguments as a stream prints them. Errors: std::bad_alloc.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // else a text, maybe a path, is cut silently where memory ends
  (out << ... << parts);
  return out.str();
}

/// 1.5 GB, 300 MB, 12 B: decimal units, at most four significant digits.
std::string human_bytes(std::uint64_t bytes);

/// "1.2 G", "300 M", "12 ": a decimal prefix for the unit that follows, at most four significant digits. From 0 up.
std::string human_number(double value);

}  // namespace spmm
