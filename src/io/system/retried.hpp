// System calls that a signal interrupts.
#pragma once

#include <cerrno>

namespace spmm::io {

/// Repeats a system call while a signal interrupts it.
template <class Call>
auto retried(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

}  // namespace spmm::io
