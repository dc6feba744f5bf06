// Writing JSON piece by piece.
#include "report/json_writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace spmm::cli {
namespace {

/// Bytes of the UTF-8 sequence that the text begins with; 0 if it begins with none. Shapes: text not empty.
std::size_t sequence_length(std::string_view text) {
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

}  // namespace

JsonWriter& JsonWriter::open(std::string_view name, char bracket) {
  begin(name);
  out_ += bracket;
  is_first_ = true;
  ++depth_;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  --depth_;
  if (!is_first_) new_line();
  out_ += bracket;
  is_first_ = false;
  return *this;
}

void JsonWriter::begin(std::string_view name) {
  if (!is_first_) out_ += ',';
  is_first_ = false;
  if (depth_ != 0) new_line();
  if (name.empty()) return;
  string(name);
  out_ += indent_ == 0 ? ":" : ": ";
}

void JsonWriter::new_line() {
  if (indent_ != 0) (out_ += '\n').append(std::size_t{indent_} * depth_, ' ');
}

void JsonWriter::number(double value) {
  if (!std::isfinite(value)) {
    out_ += "null";
    return;
  }
  std::array<char, 32> digits{};
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string_view written(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out_ += written;
  if (written.find_first_of(".e") == std::string_view::npos) out_ += ".0";  // a reader keeps it apart from a count
}

void JsonWriter::string(std::string_view value) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out_ += '"';
  while (!value.empty()) {
    const auto byte = static_cast<unsigned char>(value.front());
    const std::size_t length = sequence_length(value);
    if (byte == '"' || byte == '\\') {
      (out_ += '\\') += value.front();
    } else if (byte < 0x20) {
      ((out_ += "\\u00") += kHex[byte >> 4]) += kHex[byte & 15];
    } else if (length == 0) {
      out_ += "\\ufffd";
    } else {
      out_ += value.substr(0, length);
    }
    value.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out_ += '"';
}

std::string json_quoted(std::string_view value) {
  return JsonWriter().add("", value).take();
}

}  // namespace spmm::cli
