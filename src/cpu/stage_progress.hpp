// Progress of one stage, added up over threads.
#pragma once

#include <cstdint>
#include <mutex>

#include "spmm/run.hpp"

namespace spmm::cpu {

class Progress {
 public:
  Progress(const RunContext& context, Stage stage, std::uint64_t total)
      : context_(context), stage_(stage), total_(total) {}

  /// Threads: any; the caller's function is called by one at a time.
  void add(std::uint64_t done) {
    if (!context_.on_progress) return;
    const std::lock_guard lock(mutex_);
    done_ += done;
    context_.on_progress(stage_, done_, total_);
  }

 private:
  const RunContext& context_;
  Stage stage_;
  std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

}  // namespace spmm::cpu
