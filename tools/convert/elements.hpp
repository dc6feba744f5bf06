// Numbers of other formats become elements of 16 bits, by the rule of README.md.
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

/// Number of elements that the rule has changed. One that was rounded as well counts as raised or cut alone.
struct ChangedElements {
  /// "; 3 rounded, 2 raised to 0, 1 cut to 65535"; "" if none was changed.
  [[nodiscard]] std::string summary() const;

  std::uint64_t rounded = 0;
  std::uint64_t raised = 0;  ///< to 0
  std::uint64_t cut = 0;     ///< to 65,535
};

/// An element, or what is wrong with the number.
struct RuledElement {
  std::uint16_t value = 0;
  const char* problem = nullptr;  ///< nullptr: nothing
  const char* hint = "";
};

RuledElement apply_rule(double sum, const ElementRule& rule, ChangedElements& changed);

/// Errors: always FormatError. Values: which = "the element at row 3, column 4 (counted from 1)".
[[noreturn]] void throw_bad_element(const std::string& file, const std::string& which, double sum,
                                    const ElementRule& rule, const RuledElement& bad);

/// Sorts a list by row and column, adds up the numbers of each place and replaces them by elements; zeros are dropped.
/// Memory: none beyond the list. Errors: FormatError with the first place in the file that breaks the rule.
void make_elements(std::vector<MatrixEntry>& entries, const ElementRule& rule, ChangedElements& changed,
                   const std::string& file);

}  // namespace spmm::tools
