// Progress of one stage, added up over threads.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/run/run.hpp"

namespace spmm::cpu {

class Progress {
 public:
  Progress(const Run& run, Stage stage, std::uint64_t total) : run_(run), stage_(stage), total_(total) {}

  /// Threads: any; the caller's function is called by one at a time.
  void add(std::uint64_t done) {
    if (!run_.on_progress) return;
    const std::lock_guard lock(mutex_);
    done_ += done;
    run_.on_progress(stage_, done_, total_);
  }

 private:
  const Run& run_;
  Stage stage_;
  std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

}  // namespace spmm::cpu
