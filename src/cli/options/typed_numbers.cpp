// Numbers of the command line.
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/text.hpp"
#include "cli/options/did_you_mean.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "spmm/options.hpp"

namespace spmm::cli {
namespace {

std::string in_quotes(const std::string& value) {
  return "\"" + value + "\"";
}

/// A decimal number as written: digits * 10^exponent, and what follows it.
struct Decimal {
  std::uint64_t digits = 0;
  int exponent = 0;
  std::string rest;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Reads "12", "1_000", "1.5", "33e6"; nothing if the text does not start with such a number.
std::optional<Decimal> read_decimal(const std::string& text) {
  Decimal number;
  std::size_t at = 0;
  bool in_fraction = false;
  if (text.empty() || !is_digit(text[0])) return std::nullopt;
  for (; at < text.size(); ++at) {
    const bool digit_follows = at + 1 < text.size() && is_digit(text[at + 1]);
    if (text[at] == '_' && digit_follows) continue;
    if (text[at] == '.' && !in_fraction && digit_follows) {
      in_fraction = true;
      continue;
    }
    if (!is_digit(text[at])) break;
    const auto digit = static_cast<unsigned>(text[at] - '0');
    if (__builtin_mul_overflow(number.digits, std::uint64_t{10}, &number.digits) ||
        __builtin_add_overflow(number.digits, std::uint64_t{digit}, &number.digits)) {
      return std::nullopt;
    }
    number.exponent -= in_fraction ? 1 : 0;
  }
  if (at + 1 < text.size() && (text[at] == 'e' || text[at] == 'E') && is_digit(text[at + 1])) {
    int power = 0;
    const auto [end, error] = std::from_chars(text.data() + at + 1, text.data() + text.size(), power);
    if (error != std::errc{} || power > 1000) return std::nullopt;
    number.exponent += power;
    at = static_cast<std::size_t>(end - text.data());
  }
  number.rest = text.substr(at);
  return number;
}

/// digits * 10^exponent * unit; nothing if that is not a whole number or does not fit 64 bits.
std::optional<std::uint64_t> whole_value(const Decimal& number, std::uint64_t unit) {
  std::uint64_t value = 0;
  if (__builtin_mul_overflow(number.digits, unit, &value)) return std::nullopt;
  for (int e = number.exponent; e < 0 && value != 0; ++e) {
    if (value % 10 != 0) return std::nullopt;
    value /= 10;
  }
  for (int e = number.exponent; e > 0 && value != 0; --e) {
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value)) return std::nullopt;
  }
  return value;
}

/// Bytes of a unit ("", "k", "MiB", ...); nothing if it is unknown.
std::optional<std::uint64_t> unit_bytes(std::string unit) {
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  if (unit.empty()) return 1;
  const std::size_t power = std::string("kmgt").find(unit[0]);
  if (power == std::string::npos || unit.size() > 2 || (unit.size() == 2 && unit[1] != 'i')) return std::nullopt;
  std::uint64_t bytes = 1;
  for (std::size_t p = 0; p <= power; ++p) bytes *= unit.size() == 2 ? 1024 : 1000;
  return bytes;
}

}  // namespace

std::uint64_t parse_bytes(const std::string& text, const std::string& where) {
  const auto refuse = [&] {
    return UsageError(where, in_quotes(text) + " is not a number of bytes", "write it like 8G, 512M, 2GiB or 1e9");
  };
  const auto number = read_decimal(text);
  if (!number) throw refuse();
  const auto unit = unit_bytes(number->rest);
  if (!unit) throw refuse();
  const auto value = whole_value(*number, *unit);
  if (!value) throw refuse();
  return *value;
}

std::uint64_t parse_count(const std::string& text, const std::string& where, std::uint64_t low, std::uint64_t high) {
  const auto number = read_decimal(text);
  const auto value = number && number->rest.empty() ? whole_value(*number, 1) : std::nullopt;
  if (!value || *value < low || *value > high) {
    const std::string most = high == UINT64_MAX ? "2^64 - 1" : spmm::text(high);
    throw UsageError(where, spmm::text(in_quotes(text), " is not a whole number from ", low, " to ", most),
                     "write it like 12, 33e6 or 33_000_000");
  }
  return *value;
}

std::uint64_t parse_verify(const std::string& text, const std::string& where) {
  if (text == "full") return kVerifyFull;
  if (const auto number = read_decimal(text); number && number->rest.empty()) {
    return parse_count(text, where, 0, kVerifyFull - 1);
  }
  throw UsageError(where, in_quotes(text) + " is not known" + suggestion(text, {"full"}),
                   "give full or a number of blocks");
}

std::vector<int> parse_devices(const std::string& text, const std::string& where) {
  constexpr std::uint64_t kMaxDevice = 1023;
  if (text == "auto") return {};
  if (text == "all") return {kAllDevices};
  std::vector<int> devices;
  std::istringstream numbers(text + ",");
  for (std::string number; std::getline(numbers, number, ',');) {
    devices.push_back(static_cast<int>(parse_count(number, where, 0, kMaxDevice)));
  }
  return devices;
}

RowRange parse_rows(const std::string& text, const std::string& where) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw UsageError(where, in_quotes(text) + " is not a range of block rows",
                     "write it like 0:1000, the first row and the one behind the last");
  }
  RowRange rows;
  const auto number = [&](const std::string& typed, std::uint32_t otherwise) {
    return typed.empty() ? otherwise : static_cast<std::uint32_t>(parse_count(typed, where, 0, UINT32_MAX));
  };
  rows.first = number(text.substr(0, colon), rows.first);
  rows.end = number(text.substr(colon + 1), rows.end);
  if (rows.first <= rows.end) return rows;
  throw UsageError(where, in_quotes(text) + " ends before it begins", "write the smaller row first");
}

double parse_fraction(const std::string& text, const std::string& where) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= 0 && value <= 1)) {
    throw UsageError(where, in_quotes(text) + " is not a fraction", "give a number from 0 to 1");
  }
  return value;
}

}  // namespace spmm::cli
