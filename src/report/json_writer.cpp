// Writing JSON piece by piece.
#include "report/json_writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace spmm::cli {
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
    const std::size_t length = utf8_length(value);
    if (byte == '"' || byte == '\\') {
      (out_ += '\\') += value.front();
    } else if (begins_with_control(value)) {
      const auto last = static_cast<unsigned char>(value[length - 1]);  // of a control character its number
      ((out_ += "\\u00") += kHex[last >> 4]) += kHex[last & 15];
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
