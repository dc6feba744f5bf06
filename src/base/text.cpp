// Numbers and sizes in messages.
#include "base/text.hpp"

#include <array>
#include <cstdio>

namespace spmm {

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.4g %s", value, kUnits[unit]);
  return out.data();
}

std::string human_number(double value) {
  constexpr std::array<const char*, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  while (value >= 1000 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.4g %s", value, kPrefixes[prefix]);
  return out.data();
}

}  // namespace spmm
