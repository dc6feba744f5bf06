// Numbers of the command line.
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
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

/// A number that a text begins with, such as "12", "1_000", "1.5" or "33e6", and what follows it.
struct Number {
  long double value = 0;
  std::string rest;
};

std::optional<Number> read_number(const std::string& text) {
  const auto is_digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  if (!is_digit(0)) return std::nullopt;
  std::string plain;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const bool joins = std::string_view("_.eE").find(text[at]) != std::string_view::npos && is_digit(at + 1);
    if (!is_digit(at) && !joins) break;
    if (text[at] != '_') plain += text[at];
  }
  char* end = nullptr;
  const long double value = std::strtold(plain.c_str(), &end);
  if (*end != '\0') return std::nullopt;
  return Number{.value = value, .rest = text.substr(at)};
}

/// Nothing if it is not a whole number, but for what decimal fractions are rounded by, or does not fit 64 bits.
std::optional<std::uint64_t> whole(long double value) {
  const long double nearest = std::round(value);
  if (std::abs(value - nearest) > value * 1e-18L || nearest >= 0x1p64L) return std::nullopt;
  return static_cast<std::uint64_t>(nearest);
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
  const auto number = read_number(text);
  const auto unit = number ? unit_bytes(number->rest) : std::nullopt;
  const auto value = unit ? whole(number->value * static_cast<long double>(*unit)) : std::nullopt;
  if (value) return *value;
  throw UsageError(where, in_quotes(text) + " is not a number of bytes from 0 to 2^64 - 1",
                   "write it like 8G, 512M, 2GiB or 1e9");
}

std::uint64_t parse_count(const std::string& text, const std::string& where, std::uint64_t low, std::uint64_t high) {
  const auto number = read_number(text);
  const auto value = number && number->rest.empty() ? whole(number->value) : std::nullopt;
  if (!value || *value < low || *value > high) {
    const std::string most = high == UINT64_MAX ? "2^64 - 1" : spmm::text(high);
    throw UsageError(where, spmm::text(in_quotes(text), " is not a whole number from ", low, " to ", most),
                     "write it like 12, 33e6 or 33_000_000");
  }
  return *value;
}

std::uint64_t parse_verify(const std::string& text, const std::string& where) {
  if (text == "full") return kVerifyFull;
  if (const auto number = read_number(text); number && number->rest.empty()) {
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
