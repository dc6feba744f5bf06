// How many of something there are at the moment.
#pragma once

#include <atomic>

namespace spmm {

/// One more in a count, as long as it exists.
class Counted {
 public:
  explicit Counted(std::atomic<unsigned>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<unsigned>& count_;
};

}  // namespace spmm
