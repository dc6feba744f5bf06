// Sorts, adds up and checks the numbers of other formats.
#include "tools/convert/elements.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
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

}  // namespace

RuledElement apply_rule(double sum, const ElementRule& rule, ChangedElements& changed) {
  const double scaled = sum * rule.scale;
  if (std::isnan(scaled)) return {.problem = "is not a number", .hint = "replace it in the matrix"};
  const double value = rule.round ? std::nearbyint(scaled) : scaled;
  if (value < 0 || value > kLargest) {
    if (!rule.saturate) {
      return {.problem = value < 0 ? "is negative" : "is above 65535",
              .hint = "give --on-overflow saturate, which takes the nearest of 0 and 65535, or --scale"};
    }
    ++(value < 0 ? changed.raised : changed.cut);
    return {.value = static_cast<std::uint16_t>(std::clamp(value, 0.0, kLargest))};
  }
  const auto whole = static_cast<std::uint16_t>(value);
  if (whole != value) {
    return {.problem = "is not a whole number",
            .hint = "give --round, or --scale with a factor that makes whole numbers"};
  }
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

void throw_bad_element(const std::string& file, const std::string& which, double sum, const ElementRule& rule,
                       const RuledElement& bad) {
  throw FormatError(file,
                    text(which, " is ", shown(sum), rule.scale == 1 ? "" : text(", times ", shown(rule.scale)),
                         ", which ", bad.problem, "; expected a whole number from 0 to 65535"),
                    bad.hint);
}

void make_elements(std::vector<MatrixEntry>& entries, const ElementRule& rule, ChangedElements& changed,
                   const std::string& file) {
  const auto before = [](const MatrixEntry& x, const MatrixEntry& y) { return x.key() < y.key(); };
  if (!std::is_sorted(entries.begin(), entries.end(), before)) std::sort(entries.begin(), entries.end(), before);
  std::size_t kept = 0;
  for (std::size_t begin = 0, end = 0; begin < entries.size(); begin = end) {
    MatrixEntry element = entries[begin];
    double size = std::abs(element.value);
    bool is_whole = element.value == std::trunc(element.value);
    for (end = begin + 1; end < entries.size() && entries[end].key() == element.key(); ++end) {
      const double value = entries[end].value;
      element.value += value;
      size += std::abs(value);
      is_whole = is_whole && value == std::trunc(value);
    }
    RuledElement ruled = apply_rule(element.value, rule, changed);
    if (end - begin > 1 && !std::isnan(size) && (!is_whole || size >= kExactLimit)) {
      ruled.problem = "has several parts that are no whole numbers, or 2^53 or more together";
      ruled.hint = "store each element once";
    }
    if (ruled.problem != nullptr) {
      throw_bad_element(
          file,
          text(end - begin > 1 ? text("the sum of ", end - begin, " elements") : "the element", " at row ",
               element.row + std::uint64_t{1}, ", column ", element.column + std::uint64_t{1}, " (counted from 1)"),
          element.value, rule, ruled);
    }
    element.value = static_cast<double>(ruled.value);
    if (ruled.value != 0) entries[kept++] = element;
  }
  entries.resize(kept);
}

}  // namespace spmm::tools
