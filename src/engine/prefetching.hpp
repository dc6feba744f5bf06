// Inputs are read ahead while something else takes its time.
#pragma once

#include <thread>

#include "base/records/inputs.hpp"
#include "base/run/workers.hpp"

namespace spmm {

/// Asks for the inputs ahead of time while it lives: the first CUDA product of a process takes 0.2 s to start.
class Prefetching {
 public:
  explicit Prefetching(const Inputs& inputs)
      : thread_(start_thread([inputs] {
          try {
            inputs.a.prefetch();
            inputs.b.prefetch();
          } catch (...) {  // reading says what is wrong
          }
        })) {}

 private:
  std::jthread thread_;
};

}  // namespace spmm
