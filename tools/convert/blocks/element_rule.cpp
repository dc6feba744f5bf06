// How numbers of other formats become elements of 16 bits.
#include "tools/convert/blocks/element_rule.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr double kLargest = 65535;

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

Wording wording(ElementFault fault) {
  constexpr const char* kSaturate = "give --on-overflow saturate, which takes the nearest of 0 and 65535, or --scale";
  switch (fault) {
    case ElementFault::fraction:
      return {"is not a whole number", "give --round, or --scale with a factor that makes whole numbers"};
    case ElementFault::negative:
      return {"is negative", kSaturate};
    case ElementFault::too_large:
      return {"is above 65535", kSaturate};
    case ElementFault::inexact:
      return {"passed 2^53 while it was added up, where whole numbers are lost", "store each element once"};
    default:
      return {"is not a number", "replace it in the matrix"};
  }
}

}  // namespace

RuledElement apply_rule(double sum, std::uint64_t num_values, bool passed_exact_limit, const ElementRule& rule) {
  if (std::isnan(sum)) return {.fault = ElementFault::not_a_number};
  if (num_values > 1 && passed_exact_limit) return {.fault = ElementFault::inexact};
  const double scaled = rule.scale == 1 ? sum : sum * rule.scale;
  if (std::isnan(scaled)) return {.fault = ElementFault::not_a_number};  // infinity times 0
  const double value = rule.round ? std::nearbyint(scaled) : scaled;
  if (value < 0) {
    if (!rule.saturate) return {.fault = ElementFault::negative};
    return {.value = 0, .change = ElementChange::raised};
  }
  if (value > kLargest) {
    if (!rule.saturate) return {.fault = ElementFault::too_large};
    return {.value = static_cast<std::uint16_t>(kLargest), .change = ElementChange::cut};
  }
  const auto whole = static_cast<std::uint16_t>(value);
  if (static_cast<double>(whole) != value) return {.fault = ElementFault::fraction};
  return {.value = whole, .change = value == scaled ? ElementChange::none : ElementChange::rounded};
}

void ChangedElements::count(ElementChange change) {
  rounded += change == ElementChange::rounded ? 1 : 0;
  raised += change == ElementChange::raised ? 1 : 0;
  cut += change == ElementChange::cut ? 1 : 0;
}

std::string ChangedElements::summary() const {
  std::string line;
  const auto add = [&](std::uint64_t elements, const char* what) {
    if (elements > 0) line += text(line.empty() ? "; " : ", ", elements, what);
  };
  add(rounded, " rounded");
  add(raised, " raised to 0");
  add(cut, " cut to 65535");
  return line;
}

BadElement make_elements(std::vector<MatrixEntry>& entries, const ElementRule& rule, ChangedElements& changed) {
  std::size_t kept = 0;
  for (std::size_t begin = 0; begin < entries.size();) {
    const MatrixEntry first = entries[begin];
    double sum = first.value;
    bool passed = std::abs(sum) >= kExactLimit;
    std::size_t end = begin + 1;
    for (; end < entries.size() && entries[end].key() == first.key(); ++end) {
      passed = passed || std::abs(entries[end].value) >= kExactLimit;
      sum += entries[end].value;
      passed = passed || std::abs(sum) >= kExactLimit;
    }
    const RuledElement element = apply_rule(sum, end - begin, passed, rule);
    if (element.fault != ElementFault::none) {
      return {.row = first.row, .column = first.column, .sum = sum, .num_values = end - begin, .fault = element.fault};
    }
    changed.count(element.change);
    if (element.value != 0) {
      entries[kept] = {.column = first.column, .row = first.row, .value = static_cast<double>(element.value)};
      ++kept;
    }
    begin = end;
  }
  entries.resize(kept);
  return {};
}

void throw_at_element(const std::string& where, const BadElement& bad, std::uint64_t first_index,
                      const ElementRule& rule) {
  const Wording words = wording(bad.fault);
  throw FormatError(
      where,
      text(bad.num_values > 1 ? text("the sum of ", bad.num_values, " elements") : "the element", " at row ",
           bad.row + first_index, ", column ", bad.column + first_index, " (counted from ", first_index, ") is ",
           shown(bad.sum), rule.scale == 1 ? "" : text(", times ", shown(rule.scale)), ", which ", words.problem,
           "; expected a whole number from 0 to 65535"),
      words.hint);
}

void throw_bad_element(EntryReader& reader, const std::string& name, BadElement bad, const ElementRule& rule,
                       bool transposed) {
  if (transposed) std::swap(bad.row, bad.column);
  EntrySink finder(false);
  finder.search(bad.row, bad.column);
  reader.read(finder);
  std::string where = name;
  const auto& places = finder.places();
  for (std::size_t p = 0; p < places.size(); ++p) {
    const std::string place = reader.place_text(places[p]);
    if (!place.empty()) where += (p == 0 ? ", " : " and ") + place;
  }
  if (bad.num_values > places.size()) where += " and more";
  throw_at_element(where, bad, reader.first_index(), rule);
}

}  // namespace spmm::tools
