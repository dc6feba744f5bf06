// Numbers and sizes in messages.
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace spmm {

void append(std::string& all, double value) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%g", value);
  all += digits.data();
}

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xC0U) != 0x80) return 0;
  }
  const unsigned second = byte(1);  // too long a form, a surrogate, beyond U+10FFFF
  const bool is_bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
                      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return is_bad ? 0 : length;
}

bool begins_with_control(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  return first < 0x20 || first == 0x7F || (utf8_length(text) == 2 && text.substr(0, 2) < "\xC2\xA0");
}

std::string printable(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view letter = text.substr(0, std::max<std::size_t>(length, 1));
    if (length != 0 && !begins_with_control(text)) {
      shown += letter;
    } else {
      for (const unsigned char byte : letter) ((shown += "\\x") += kHex[byte >> 4]) += kHex[byte & 15];
    }
    text.remove_prefix(letter.size());
  }
  return shown;
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

std::string human_bytes(std::uint64_t bytes) {
  return human_number(static_cast<double>(bytes)) + "B";
}

}  // namespace spmm
