#include "io/formats/json_text.hpp"

#include <algorithm>
#include <charconv>

namespace spmm::io {

namespace {

constexpr int kMaxDepth = 8;

}  // namespace

char JsonReader::next() {
  left_.remove_prefix(std::min(left_.find_first_not_of(" \t\r\n"), left_.size()));
  return left_.empty() ? '\0' : left_.front();
}

bool JsonReader::take(char letter) {
  if (next() != letter || left_.empty()) return false;
  left_.remove_prefix(1);
  return true;
}

bool JsonReader::number(std::uint64_t& out) {
  next();
  const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), out);
  if (error != std::errc()) return false;
  left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
  return true;
}

bool JsonReader::string(std::string_view& out) {
  if (next() != '"') return false;
  const std::size_t end = left_.find_first_of("\"\\\n", 1);
  if (end == std::string_view::npos || left_[end] != '"') return false;
  out = left_.substr(1, end - 1);
  left_.remove_prefix(end + 1);
  return true;
}

bool JsonReader::list(char begin, char end, const std::function<bool()>& item) {
  if (!take(begin) || depth_ == kMaxDepth) return false;
  ++depth_;
  bool is_right = true;
  if (next() != end) {
    do is_right = item();
    while (is_right && take(','));
  }
  --depth_;
  return is_right && take(end);
}

bool JsonReader::object(const std::function<bool(std::string_view name)>& member) {
  return list('{', '}', [&] {
    std::string_view name;
    return string(name) && take(':') && member(name);
  });
}

bool JsonReader::array(const std::function<bool()>& item) {
  return list('[', ']', item);
}

bool JsonReader::skip() {
  std::uint64_t number_there = 0;
  std::string_view string_there;
  switch (next()) {
    case '{':
      return object([this](std::string_view) { return skip(); });
    case '[':
      return array([this] { return skip(); });
    case '"':
      return string(string_there);
    default:
      return number(number_there);
  }
}

}  // namespace spmm::io
