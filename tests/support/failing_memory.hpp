// Makes operator new fail on purpose. A program that uses it has its own operator new.
#pragma once

#include <cstdint>

namespace spmm::test {

/// While it lives, the first `num_left` allocations with operator new succeed and all later ones throw std::bad_alloc,
/// on every thread.
class FailingMemory {
 public:
  explicit FailingMemory(std::int64_t num_left);
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  /// Whether an allocation has failed.
  [[nodiscard]] bool has_failed() const;
};

/// While it lives, the process gets no more memory mapped (RLIMIT_AS is what it has now).
class NoMoreMappings {
 public:
  NoMoreMappings();
  ~NoMoreMappings();
  NoMoreMappings(const NoMoreMappings&) = delete;
  NoMoreMappings& operator=(const NoMoreMappings&) = delete;

 private:
  std::uint64_t before_;
};

}  // namespace spmm::test
