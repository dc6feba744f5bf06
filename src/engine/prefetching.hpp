// Inputs are read ahead while something else takes its time.
#pragma once

#include <thread>

#include "base/memory/budget.hpp"
#include "base/records/inputs.hpp"
#include "base/run/workers.hpp"

namespace spmm {

/// Asks for the inputs ahead of time while it lives, but for those that are kept on the device: the first CUDA product
/// of a process takes 0.2 s to start.
class Prefetching {
 public:
  Prefetching(const Inputs& inputs, const MemoryBudget& budget)
      : thread_(start_thread([inputs, &budget] {
          try {
            for (const Source* source : {&inputs.a, &inputs.b}) {
              const auto identity = source->identity();
              if (!identity || !budget.keeps(*identity)) source->prefetch();
            }
          } catch (...) {  // reading says what is wrong
          }
        })) {}

 private:
  std::jthread thread_;
};

}  // namespace spmm
