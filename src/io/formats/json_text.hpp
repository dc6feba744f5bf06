// The JSON that the library itself reads: the index of a result in parts. Programs use nlohmann-json.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace spmm::io {

/// Reads whole numbers below 2^64, strings without escapes, arrays and objects from the front of a text, and keeps none
/// of them. Members return false if what comes next is anything else; nothing can be read after that.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : left_(text) {}

  bool number(std::uint64_t& out);
  /// A view into the text.
  bool string(std::string_view& out);
  /// Calls member(name) in front of each value, which it has to read.
  bool object(const std::function<bool(std::string_view name)>& member);
  /// Calls item() in front of each value, which it has to read.
  bool array(const std::function<bool()>& item);
  /// Any value.
  bool skip();

  /// The first letter of the next value; 0 at the end.
  char next();

 private:
  bool take(char letter);
  bool list(char begin, char end, const std::function<bool()>& item);

  std::string_view left_;
  int depth_ = 0;
};

}  // namespace spmm::io
