#include "io/json_text.hpp"

#include <algorithm>
#include <charconv>

namespace spmm::io {
namespace {

constexpr int kMaxDepth = 8;

/// Reads from the front of a text; members return false where it is not what they want.
class Parser {
 public:
  explicit Parser(std::string_view text) : left_(text) {}

  bool value(JsonValue& out, int depth = 0) {
    skip_space();
    if (left_.empty() || depth > kMaxDepth) return false;
    switch (left_.front()) {
      case '{':
        return list(out, JsonValue::Kind::object, '}', depth);
      case '[':
        return list(out, JsonValue::Kind::array, ']', depth);
      case '"':
        out.kind = JsonValue::Kind::string;
        return string(out.string);
      default:
        return number(out.number);
    }
  }

  bool at_end() {
    skip_space();
    return left_.empty();
  }

 private:
  void skip_space() { left_.remove_prefix(std::min(left_.find_first_not_of(" \t\r\n"), left_.size())); }

  bool take(char letter) {
    skip_space();
    if (left_.empty() || left_.front() != letter) return false;
    left_.remove_prefix(1);
    return true;
  }

  bool list(JsonValue& out, JsonValue::Kind kind, char end, int depth) {
    out.kind = kind;
    left_.remove_prefix(1);
    if (take(end)) return true;
    do {
      if (kind == JsonValue::Kind::object) {
        skip_space();
        if (!string(out.names.emplace_back()) || !take(':')) return false;
      }
      if (!value(out.items.emplace_back(), depth + 1)) return false;
    } while (take(','));
    return take(end);
  }

  bool string(std::string& out) {
    if (left_.empty() || left_.front() != '"') return false;
    const std::size_t end = left_.find_first_of("\"\\\n", 1);
    if (end == std::string_view::npos || left_[end] != '"') return false;
    out = left_.substr(1, end - 1);
    left_.remove_prefix(end + 1);
    return true;
  }

  bool number(std::uint64_t& out) {
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), out);
    if (error != std::errc()) return false;
    left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    return true;
  }

  std::string_view left_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &items[static_cast<std::size_t>(found - names.begin())];
}

std::optional<JsonValue> parse_json(std::string_view text) {
  Parser parser(text);
  JsonValue value;
  if (!parser.value(value) || !parser.at_end()) return std::nullopt;
  return value;
}

}  // namespace spmm::io
