// Elements of other formats: a list of numbers with their places, which become elements of 16 bits by the rule of
// README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace spmm::tools {

/// One stored number. 16 bytes: what bounds the memory of a conversion.
struct MatrixEntry {
  std::uint32_t column = 0;
  std::uint32_t row = 0;
  double value = 0;

  [[nodiscard]] std::uint64_t key() const { return std::uint64_t{row} << 32 | column; }
};
static_assert(sizeof(MatrixEntry) == 16);

struct ElementRule {
  double scale = 1;       ///< factor of every sum, before it is checked
  bool round = false;     ///< fractions go to the nearest whole number (of two, to the even one); otherwise errors
  bool saturate = false;  ///< below 0 becomes 0, above 65,535 that; otherwise errors
};

/// What is wrong with a number; none: nothing.
enum class ElementFault : std::uint8_t { none, not_a_number, inexact, negative, too_large, fraction };

struct RuledElement {
  std::uint16_t value = 0;
  ElementFault fault = ElementFault::none;
};

/// Number of elements that the rule has changed. One that was rounded as well counts as raised or cut alone.
struct ChangedElements {
  /// "; 3 rounded, 2 raised to 0, 1 cut to 65535"; "" if none was changed.
  [[nodiscard]] std::string summary() const;

  std::uint64_t rounded = 0;
  std::uint64_t raised = 0;  ///< to 0
  std::uint64_t cut = 0;     ///< to 65,535
};

/// The element for the sum of the numbers of one place.
RuledElement apply_rule(double sum, const ElementRule& rule, ChangedElements& changed);

/// A place whose sum breaks the rule.
struct BadElement {
  std::uint32_t row = 0;
  std::uint32_t column = 0;
  double sum = 0;
  std::uint64_t num_values = 0;
  ElementFault fault = ElementFault::none;
};

/// Sorts by row and column. Memory: none beyond the list.
void sort_entries(std::vector<MatrixEntry>& entries);

/// The exact sum of numbers, rounded once, so that their order changes nothing. Values: finite. Source: J. R. Shewchuk,
/// Adaptive Precision Floating-Point Arithmetic (1997); as math.fsum of Python.
double exact_sum(const std::vector<double>& values);

/// Adds up the numbers of each place of a sorted list and replaces them by elements; zeros are dropped. Returns the
/// first place that breaks the rule, with fault none where no place does.
BadElement make_elements(std::vector<MatrixEntry>& entries, const ElementRule& rule, ChangedElements& changed);

/// Errors: always FormatError; rows and columns are counted from first_index.
[[noreturn]] void throw_bad_element(const std::string& where, const BadElement& bad, std::uint64_t first_index,
                                    const ElementRule& rule);

}  // namespace spmm::tools
