// Sorts, adds up and checks the numbers of other formats.
#include "tools/convert/elements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
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

RuledElement apply_rule(double sum, const ElementRule& rule) {
  const double scaled = sum * rule.scale;
  if (std::isnan(scaled)) return {.fault = ElementFault::not_a_number};
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
  if (whole != value) return {.fault = ElementFault::fraction};
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

void sort_entries(std::vector<MatrixEntry>& entries, unsigned num_threads) {
  constexpr std::size_t kBuckets = 2048;
  const auto before = [](const MatrixEntry& x, const MatrixEntry& y) { return x.key() < y.key(); };
  if (entries.empty() || std::is_sorted(entries.begin(), entries.end(), before)) return;
  std::uint32_t last_row = 0;
  for (const MatrixEntry& entry : entries) last_row = std::max(last_row, entry.row);
  const int shift = std::max(0, static_cast<int>(std::bit_width(last_row)) - std::countr_zero(kBuckets));
  const auto bucket_of = [&](const MatrixEntry& entry) { return std::size_t{entry.row} >> shift; };

  // Each element goes to the next free place of its bucket of rows, in place; then the buckets are sorted.
  std::array<std::uint64_t, kBuckets + 1> bounds{};
  for (const MatrixEntry& entry : entries) ++bounds[bucket_of(entry) + 1];
  for (std::size_t b = 0; b < kBuckets; ++b) bounds[b + 1] += bounds[b];
  std::array<std::uint64_t, kBuckets> next{};
  std::copy_n(bounds.begin(), kBuckets, next.begin());
  for (std::size_t b = 0; b < kBuckets; ++b) {
    while (next[b] < bounds[b + 1]) {
      MatrixEntry entry = entries[next[b]];
      for (std::size_t home = bucket_of(entry); home != b; home = bucket_of(entry)) {
        std::swap(entry, entries[next[home]++]);
      }
      entries[next[b]++] = entry;
    }
  }
  parallel_for(num_threads, kBuckets, 1, [&](std::uint64_t first, std::uint64_t end) {
    cli::check_cancelled("spmm-convert");
    const auto at = [&](std::uint64_t bound) { return entries.begin() + static_cast<std::ptrdiff_t>(bounds[bound]); };
    for (std::uint64_t b = first; b < end; ++b) std::sort(at(b), at(b + 1), before);
  });
}

BadElement make_elements(std::vector<MatrixEntry>& entries, const ElementRule& rule, ChangedElements& changed) {
  std::size_t kept = 0;
  for (std::size_t begin = 0; begin < entries.size();) {
    const MatrixEntry first = entries[begin];
    double sum = first.value;
    bool is_inexact = std::abs(sum) >= kExactLimit;
    std::size_t end = begin + 1;
    for (; end < entries.size() && entries[end].key() == first.key(); ++end) {
      is_inexact = is_inexact || std::abs(entries[end].value) >= kExactLimit;
      sum += entries[end].value;
      is_inexact = is_inexact || std::abs(sum) >= kExactLimit;
    }
    const std::size_t num_values = end - begin;
    RuledElement element = apply_rule(sum, rule);
    if (num_values > 1 && is_inexact && !std::isnan(sum)) element.fault = ElementFault::inexact;
    if (element.fault != ElementFault::none) {
      return {.row = first.row, .column = first.column, .sum = sum, .num_values = num_values, .fault = element.fault};
    }
    changed.count(element.change);
    if (element.value != 0) {
      entries[kept++] = {.column = first.column, .row = first.row, .value = static_cast<double>(element.value)};
    }
    begin = end;
  }
  entries.resize(kept);
  return {};
}

void throw_bad_element(const std::string& where, const BadElement& bad, std::uint64_t first_index,
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

}  // namespace spmm::tools
