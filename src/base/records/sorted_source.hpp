// Sources inside the program whose records are in order.
#pragma once

#include "spmm/stream.hpp"

namespace spmm {

class SortedSource : public Source {
 public:
  /// Whether records come row by row with ascending columns, checked before: none is out of range, none occurs twice.
  [[nodiscard]] virtual bool is_sorted() const = 0;
};

inline bool is_sorted(const Source& source) {
  const auto* const sorted = dynamic_cast<const SortedSource*>(&source);
  return sorted != nullptr && sorted->is_sorted();
}

}  // namespace spmm
