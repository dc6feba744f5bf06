#include "tools/dense/dense_matrix.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"
#include "tools/common/random.hpp"
#include "tools/dense/dense_elements.hpp"

namespace spmm::tools {
namespace {

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

std::vector<std::byte> random_dense(Type type, std::uint64_t count, ValueRange range, std::uint64_t key,
                                    unsigned num_threads) {
  std::vector<std::byte> elements(count * dense::input_element_bytes(type));
  dense::for_elements(type, [&]<class E>(E) {
    using In = typename E::In;
    parallel_for(num_threads, count, kFillGrain, [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t at = begin; at < end; ++at) {
        dense::store<In>(elements, at, value_in<In>(random_at(key, at), range));
      }
    });
  });
  return elements;
}

void write_dense(const std::string& path, Type type, Operand operand, std::span<const std::byte> elements,
                 std::uint32_t cols) {
  for (const auto& [ending, separator] : {std::pair(".txt", ' '), std::pair(".csv", ',')}) {
    std::ofstream file(path + ending, std::ios::binary | std::ios::trunc);
    if (!file) throw OutputError(path + ending, "cannot be created", "name a folder that can be written");
    dense::for_elements(type, [&]<class E>(E) {
      if (operand == Operand::input) return write_elements<typename E::In>(file, elements, cols, separator);
      write_elements<typename E::Out>(file, elements, cols, separator);
    });
    file.close();
    if (!file) throw IoError(path + ending, "writing failed", "check the free space of its folder (df)");
  }
}

}  // namespace spmm::tools
