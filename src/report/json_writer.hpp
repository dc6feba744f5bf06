// JSON written without a tree of values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace spmm::cli {

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

}  // namespace spmm::cli
