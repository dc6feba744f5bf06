// Numbers and sizes in messages.
#include "base/text.hpp"

#include <charconv>
#include <cstdio>

namespace spmm {

TextPart::TextPart(double value) {
  num_digits_ = static_cast<std::size_t>(std::snprintf(digits_.data(), digits_.size(), "%g", value));
}

void TextPart::set(std::uint64_t value, bool is_negative) {
  char* const first = digits_.data();
  if (is_negative) *first = '-';
  const auto end = std::to_chars(first + (is_negative ? 1 : 0), first + digits_.size(), is_negative ? -value : value);
  num_digits_ = static_cast<std::size_t>(end.ptr - first);
}

std::string joined_text(std::initializer_list<TextPart> parts) {
  std::size_t size = 0;
  for (const TextPart& part : parts) size += part.view().size();
  std::string all;
  all.reserve(size);
  for (const TextPart& part : parts) all += part.view();
  return all;
}

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
