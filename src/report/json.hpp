// JSON: its writer, and the report, plan and trace of a product, for programs and for the C interface.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "spmm/plan.hpp"
#include "spmm/report.hpp"
#include "spmm/types.hpp"

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

/// Names of a run that the library does not know; empty: operands and result in memory.
struct RunNames {
  std::filesystem::path a{}, b{}, out{};
  std::vector<std::string> command{};  ///< program and arguments as given
};

/// How a report is written. A program's own members follow those that all reports have.
struct ReportLayout {
  unsigned indent = 2;  ///< 0: one line
  std::function<void(JsonWriter& json)> add_own{};
};

std::string report_json(const Report& report, const RunNames& names, const ReportLayout& layout = {});
std::string plan_json(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan, const RunNames& names);

/// A trace for chrome://tracing and Perfetto: an array of events in the Trace Event Format, times in microseconds. The
/// host and each device are a process with a name, threads and streams are its threads. The product itself is the first
/// event of the thread that called it.
std::string trace_json(const Trace& trace, const Report& report);

}  // namespace spmm::cli
