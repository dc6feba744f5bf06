#include "tools/dense/dense_matrix.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string_view>
#include <type_traits>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"
#include "tools/common/random.hpp"
#include "tools/dense/dense_elements.hpp"

namespace spmm::tools {
namespace {

using dense::Elements;
using dense::Type;

constexpr std::uint64_t kFillGrain = std::uint64_t{1} << 16;
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;
constexpr std::size_t kNumberChars = 32;

/// "0 to 65535", for messages.
template <class T>
std::string values_of() {
  if constexpr (std::is_floating_point_v<T>) return "a finite number";
  return text("a whole number from ", +std::numeric_limits<T>::min(), " to ", +std::numeric_limits<T>::max());
}

/// All of `word` as a T; false if it is none.
template <class T>
bool parse_element(std::string_view word, T& value) {
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc{} || stop != end) return false;
  if constexpr (std::is_floating_point_v<T>) return std::isfinite(value);
  return true;
}

template <class T>
double range_end(const std::string& word, const std::string& where) {
  T value{};
  if (parse_element(std::string_view(word), value)) return static_cast<double>(value);
  throw UsageError(where, "\"" + word + "\" is no end of a range", "give " + values_of<T>());
}

/// The random number as a value of the range.
template <class T>
T value_in(std::uint64_t random, ValueRange range) {
  if constexpr (std::is_floating_point_v<T>) {
    const double share = static_cast<double>(random >> 11) * 0x1p-53;
    return static_cast<T>(range.low + share * (range.high - range.low));
  } else {
    // Values per number of the upper 32 bits: a span is at most 2^32, and low + offset fits the type.
    const auto low = static_cast<std::int64_t>(range.low);
    const std::uint64_t span = static_cast<std::uint64_t>(static_cast<std::int64_t>(range.high) - low) + 1;
    return static_cast<T>(low + static_cast<std::int64_t>(((random >> 32) * span) >> 32));
  }
}

/// Splits files into lines and elements.
template <class T>
class Reader {
 public:
  Reader(const std::string& name, DenseMatrix& out) : name_(name), out_(out) {}

  void line(std::string_view line) {
    ++line_number_;
    while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    if (line.empty()) return;
    const std::uint64_t found = line.find(',') == line.npos ? blank_separated(line) : comma_separated(line);
    if (out_.rows == 0) out_.cols = checked_count(found, "elements in a row");
    if (found != out_.cols) {
      fail(text("found ", found, found == 1 ? " element" : " elements", ", expected ", out_.cols,
                " as in the first row"),
           "give every row the same number of elements");
    }
    out_.rows = checked_count(std::uint64_t{out_.rows} + 1, "rows");
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

  [[noreturn]] void fail(const std::string& problem, const std::string& hint) const {
    throw FormatError(text(name_, ", line ", line_number_), problem, hint);
  }

  std::uint32_t checked_count(std::uint64_t count, const char* what) const {
    if (count <= UINT32_MAX) return static_cast<std::uint32_t>(count);
    fail(text("more than ", UINT32_MAX, " ", what), "give a smaller matrix");
  }

  std::uint64_t blank_separated(std::string_view line) {
    std::uint64_t count = 0;
    for (std::size_t at = 0; at < line.size();) {
      std::size_t end = at;
      while (end < line.size() && !is_blank(line[end])) ++end;
      element(line.substr(at, end - at), ++count);
      at = end;
      while (at < line.size() && is_blank(line[at])) ++at;
    }
    return count;
  }

  std::uint64_t comma_separated(std::string_view line) {
    std::uint64_t count = 0;
    for (std::size_t at = 0; at <= line.size();) {
      const std::size_t end = std::min(line.find(',', at), line.size());
      std::string_view word = line.substr(at, end - at);
      while (!word.empty() && is_blank(word.back())) word.remove_suffix(1);
      while (!word.empty() && is_blank(word.front())) word.remove_prefix(1);
      element(word, ++count);
      at = end + 1;
    }
    return count;
  }

  void element(std::string_view word, std::uint64_t number) {
    T value{};
    if (!parse_element(word, value)) {
      fail(text("element ", number, " is \"", word.substr(0, kNumberChars), "\""), "write " + values_of<T>());
    }
    const std::size_t at = out_.elements.size();
    out_.elements.resize(at + sizeof value);
    std::memcpy(out_.elements.data() + at, &value, sizeof value);
  }

  const std::string& name_;
  DenseMatrix& out_;
  std::uint64_t line_number_ = 0;
};

template <class T>
void write_elements(std::ostream& out, std::span<const std::byte> elements, std::uint32_t cols, char separator) {
  std::string pending;
  std::array<char, kNumberChars> number{};
  const std::size_t count = elements.size() / sizeof(T);
  for (std::size_t at = 0; at < count; ++at) {
    const auto [end, error] = std::to_chars(number.data(), number.data() + number.size(), dense::load<T>(elements, at));
    pending.append(number.data(), end);
    pending += (at + 1) % cols == 0 ? '\n' : separator;
    if (pending.size() < kWriteBytes) continue;
    out << pending;
    pending.clear();
  }
  out << pending;
}

}  // namespace

std::string default_range(Type type) {
  return type == Type::u16 ? "0:1023" : "-10:10";
}

ValueRange parse_range(const std::string& text, Type type, const std::string& where) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw UsageError(where, "\"" + text + "\" is no range", "write lowest:highest, like " + default_range(type));
  }
  const ValueRange range = dense::for_elements(type, [&]<class E>(E) {
    using In = typename E::In;
    return ValueRange{.low = range_end<In>(text.substr(0, colon), where),
                      .high = range_end<In>(text.substr(colon + 1), where)};
  });
  if (range.low <= range.high) return range;
  throw UsageError(where, "\"" + text + "\" ends below its start", "write lowest:highest, like " + default_range(type));
}

DenseMatrix random_dense(Type type, std::uint32_t rows, std::uint32_t cols, ValueRange range, std::uint64_t key,
                         unsigned num_threads) {
  const std::uint64_t count = std::uint64_t{rows} * cols;
  DenseMatrix matrix{.rows = rows, .cols = cols, .elements = {}};
  matrix.elements.resize(count * dense::input_element_bytes(type));
  dense::for_elements(type, [&]<class E>(E) {
    using In = typename E::In;
    parallel_for(num_threads, count, kFillGrain, [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t at = begin; at < end; ++at) {
        dense::store<In>(matrix.elements, at, value_in<In>(random_at(key, at), range));
      }
    });
  });
  return matrix;
}

DenseMatrix read_dense(const std::string& path, Type type) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(path, "cannot be opened", "check the path and its permissions");
  DenseMatrix matrix;
  dense::for_elements(type, [&]<class E>(E) {
    Reader<typename E::In> reader(path, matrix);
    for (std::string line; std::getline(file, line);) reader.line(line);
  });
  if (file.bad()) throw IoError(path, "reading failed", "check that it is a file and its disk is well");
  if (matrix.rows == 0) throw FormatError(path, "found no element, expected a matrix", "write one row per line");
  return matrix;
}

void write_dense(const std::string& path, Type type, Operand operand, std::span<const std::byte> elements,
                 std::uint32_t cols, char separator) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) throw OutputError(path, "cannot be created", "name a folder that can be written");
  dense::for_elements(type, [&]<class E>(E) {
    if (operand == Operand::input) return write_elements<typename E::In>(file, elements, cols, separator);
    write_elements<typename E::Out>(file, elements, cols, separator);
  });
  file.close();
  if (!file) throw IoError(path, "writing failed", "check the free space of its folder (df)");
}

}  // namespace spmm::tools
