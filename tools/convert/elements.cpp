// Sorts, adds up and checks the numbers of other formats.
#include "tools/convert/elements.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr double kLargest = 65535;
constexpr double kExactLimit = 0x1p53;  ///< from here on a double may be another whole number, rounded

/// The shortest decimal number that is this double.
std::string shown(double value) {
  std::array<char, 64> out{};
  const auto [end, error] = std::to_chars(out.data(), out.data() + out.size(), value);
  return error == std::errc{} ? std::string(out.data(), end) : text(value);
}

struct Wording {
  const char* problem;
  const char* hint;
};

constexpr const char* kSaturate = "give --on-overflow saturate, which takes the nearest of 0 and 65535, or --scale";
constexpr Wording kWordings[] = {  // by ElementFault
    {"", ""},
    {"is not a number", "replace it in the matrix"},
    {"has a part of 2^53 or more, where whole numbers are lost", "store each element once"},
    {"is negative", kSaturate},
    {"is above 65535", kSaturate},
    {"is not a whole number", "give --round, or --scale with a factor that makes whole numbers"}};

}  // namespace

RuledElement apply_rule(double sum, const ElementRule& rule, ChangedElements& changed) {
  const double scaled = sum * rule.scale;
  if (std::isnan(scaled)) return {.fault = ElementFault::not_a_number};
  const double value = rule.round ? std::nearbyint(scaled) : scaled;
  if (value < 0) {
    if (!rule.saturate) return {.fault = ElementFault::negative};
    ++changed.raised;
    return {.value = 0};
  }
  if (value > kLargest) {
    if (!rule.saturate) return {.fault = ElementFault::too_large};
    ++changed.cut;
    return {.value = static_cast<std::uint16_t>(kLargest)};
  }
  const auto whole = static_cast<std::uint16_t>(value);
  if (whole != value) return {.fault = ElementFault::fraction};
  if (value != scaled) ++changed.rounded;
  return {.value = whole};
}

std::string ChangedElements::summary() const {
  std::string line;
  for (const auto& [num, words] : {std::pair{rounded, " rounded"}, {raised, " raised to 0"}, {cut, " cut to 65535"}}) {
    if (num > 0) line += text(line.empty() ? "; " : ", ", num, words);
  }
  return line;
}

void sort_entries(std::vector<MatrixEntry>& entries) {
  const auto before = [](const MatrixEntry& x, const MatrixEntry& y) { return x.key() < y.key(); };
  if (!std::is_sorted(entries.begin(), entries.end(), before)) std::sort(entries.begin(), entries.end(), before);
}

double exact_sum(const std::vector<double>& values) {
  std::vector<double> parts;  // whose exact sum is that of the values so far, by magnitude, without common digits
  for (double value : values) {
    std::size_t kept = 0;
    for (double part : parts) {
      if (std::abs(value) < std::abs(part)) std::swap(value, part);
      const double sum = value + part;
      const double lost = part - (sum - value);
      if (lost != 0) parts[kept++] = lost;
      value = sum;
    }
    parts.resize(kept);
    if (value != 0) parts.push_back(value);
  }
  double sum = 0;
  double lost = 0;
  while (!parts.empty() && lost == 0) {
    const double part = parts.back();
    parts.pop_back();
    const double before = sum;
    sum = before + part;
    lost = part - (sum - before);
  }
  if (lost != 0 && !parts.empty() && std::signbit(lost) == std::signbit(parts.back())) {
    const double next = sum + 2 * lost;  // if half of the last digit was lost, the other parts decide
    if (next - sum == 2 * lost) sum = next;
  }
  return sum;
}

BadElement make_elements(std::vector<MatrixEntry>& entries, const ElementRule& rule, ChangedElements& changed) {
  const auto is_inexact = [](double value) { return std::abs(value) >= kExactLimit; };
  const auto is_nan = [](double value) { return std::isnan(value); };
  std::vector<double> values;
  std::size_t kept = 0;
  for (std::size_t begin = 0, end = 0; begin < entries.size(); begin = end) {
    const MatrixEntry first = entries[begin];
    values.clear();
    for (; end < entries.size() && entries[end].key() == first.key(); ++end) values.push_back(entries[end].value);
    double sum = std::accumulate(values.begin(), values.end(), 0.0);
    RuledElement element;
    if (std::any_of(values.begin(), values.end(), is_nan)) {
      element.fault = ElementFault::not_a_number;
    } else if (values.size() > 1 && std::any_of(values.begin(), values.end(), is_inexact)) {
      element.fault = ElementFault::inexact;
    } else {
      if (values.size() > 1) sum = exact_sum(values);
      element = apply_rule(sum, rule, changed);
    }
    if (element.fault != ElementFault::none) {
      return {.row = first.row, .column = first.column, .sum = sum, .num_values = end - begin, .fault = element.fault};
    }
    if (element.value != 0) {
      entries[kept++] = {.column = first.column, .row = first.row, .value = static_cast<double>(element.value)};
    }
  }
  entries.resize(kept);
  return {};
}

void throw_bad_element(const std::string& where, const BadElement& bad, std::uint64_t first_index,
                       const ElementRule& rule) {
  const Wording& words = kWordings[static_cast<std::size_t>(bad.fault)];
  throw FormatError(
      where,
      text(bad.num_values > 1 ? text("the sum of ", bad.num_values, " elements") : "the element", " at row ",
           bad.row + first_index, ", column ", bad.column + first_index, " (counted from ", first_index, ") is ",
           shown(bad.sum), rule.scale == 1 ? "" : text(", times ", shown(rule.scale)), ", which ", words.problem,
           "; expected a whole number from 0 to 65535"),
      words.hint);
}

}  // namespace spmm::tools
