// Searches in ascending lists that begin near the last answer.
#pragma once

#include <algorithm>
#include <cstddef>

namespace spmm {

/// std::lower_bound() on [from, end) for a value that is expected near `from`: in steps that double.
template <class Iterator, class Value>
Iterator lower_bound_near(Iterator from, Iterator end, const Value& value) {
  std::ptrdiff_t step = 1;
  while (step < end - from && from[step - 1] < value) {
    from += step;
    step *= 2;
  }
  return std::lower_bound(from, from + std::min<std::ptrdiff_t>(step, end - from), value);
}

}  // namespace spmm
