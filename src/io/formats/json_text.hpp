// JSON without a tree of values: what the library reads (the index of a result in parts) and writes (reports).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

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

/// Writes members and items in order; the caller keeps brackets balanced. Bytes that are no UTF-8, as names of files
/// may hold, become U+FFFD. Numbers that JSON does not have become null.
class JsonWriter {
 public:
  /// Values: indent = blanks of each level, a line for each value; 0: all in one line.
  explicit JsonWriter(unsigned indent = 0) : indent_(indent) {}

  /// Opens an object '{' or an array '['. Values: name = "" of an item of an array, and outermost.
  JsonWriter& open(std::string_view name, char bracket);
  JsonWriter& close(char bracket);

  template <class T>
  JsonWriter& add(std::string_view name, const T& value) {
    begin(name);
    if constexpr (std::is_same_v<T, bool>) {
      out_ += value ? "true" : "false";
    } else if constexpr (std::is_floating_point_v<T>) {
      number(value);
    } else if constexpr (std::is_integral_v<T>) {
      out_ += std::to_string(value);
    } else {
      string(value);
    }
    return *this;
  }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void begin(std::string_view name);
  void new_line();
  void number(double value);
  void string(std::string_view value);

  std::string out_;
  unsigned indent_;
  unsigned depth_ = 0;
  bool is_first_ = true;
};

/// A string in quotes, as JsonWriter writes it.
std::string json_quoted(std::string_view value);

}  // namespace spmm::io
