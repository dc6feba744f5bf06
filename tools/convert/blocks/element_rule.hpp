// How numbers of other formats become elements of 16 bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/convert/blocks/entries.hpp"

namespace spmm::tools {

struct ElementRule {
  double scale = 1;       ///< factor of every sum, before it is checked
  bool round = false;     ///< fractions go to the nearest whole number (of two, to the even one); otherwise errors
  bool saturate = false;  ///< below 0 becomes 0, above 65,535 that; otherwise errors
};

/// What is wrong with a value; none: nothing.
enum class ElementFault : std::uint8_t { none, not_a_number, fraction, negative, too_large, inexact };

/// What became of a value that is no element as it is. One that was rounded as well counts as raised or cut alone.
enum class ElementChange : std::uint8_t { none, rounded, raised, cut };

struct RuledElement {
  std::uint16_t value = 0;
  ElementFault fault = ElementFault::none;
  ElementChange change = ElementChange::none;
};

/// Elements that the rule has changed.
struct ChangedElements {
  std::uint64_t rounded = 0;  ///< to a whole number
  std::uint64_t raised = 0;   ///< from below 0 to 0
  std::uint64_t cut = 0;      ///< from above 65,535 to that

  void count(ElementChange change);
  /// "; 3 rounded, 2 raised to 0, 1 cut to 65535"; "" if none was changed.
  [[nodiscard]] std::string summary() const;
};

/// The element for the sum of num_values values. A sum that passed 2^53 is inexact: it may have lost what decides.
RuledElement apply_rule(double sum, std::uint64_t num_values, bool passed_exact_limit, const ElementRule& rule);

/// An element that breaks the rule.
struct BadElement {
  std::uint32_t row = 0;
  std::uint32_t column = 0;
  double sum = 0;
  std::uint64_t num_values = 0;
  ElementFault fault = ElementFault::none;
};

/// Adds up the values of each place of a sorted list and replaces them by elements; zeros are dropped. Returns what
/// breaks the rule first, with fault none where nothing does.
BadElement make_elements(std::vector<MatrixEntry>& entries, const ElementRule& rule, ChangedElements& changed);

/// The message for an element that breaks the rule, at rows and columns counted from first_index. Errors: always
/// FormatError.
[[noreturn]] void throw_at_element(const std::string& where, const BadElement& bad, std::uint64_t first_index,
                                   const ElementRule& rule);

/// The same for an element of another format: reads the file again to say where it is. Errors: always
/// FormatError.
[[noreturn]] void throw_bad_element(EntryReader& reader, const std::string& name, BadElement bad,
                                    const ElementRule& rule, bool transposed);

}  // namespace spmm::tools
