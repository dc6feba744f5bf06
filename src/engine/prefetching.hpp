// Inputs are read ahead while something else takes its time.
#pragma once

#include <thread>

#include "base/memory/budget.hpp"
#include "base/run/workers.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Asks for the inputs ahead of time while it lives, but for those that are kept on the device: the first CUDA product
/// of a process takes 0.2 s to start.
class Prefetching {
 public:
  Prefetching(const Source& a, const Source& b, const MemoryBudget& budget)
      : thread_(start_thread([&a, &b, &budget] {
          try {
            for (const Source* source : {&a, &b}) {
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
