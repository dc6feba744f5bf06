// Progress bar on standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>

#include "spmm/report.hpp"

namespace spmm::cli {

enum class ProgressMode : std::uint8_t { automatic, always, never };

/// True if a bar should be drawn: always, or automatic and standard error is a terminal that is not dumb.
bool wants_progress(ProgressMode mode);

/// "3:07", "12:03:07".
std::string clock_time(double seconds);

/// One line of progress: stage, bar, share, rate and remaining time, at most `width` characters.
/// Values: seconds = time since the stage began.
std::string progress_line(Stage stage, std::uint64_t done, std::uint64_t total, double seconds, std::size_t width);

/// Draws progress lines over each other, at most ten a second; takes the line away when it is destroyed.
/// Threads: update() may be called from any thread, one at a time.
class ProgressBar {
 public:
  explicit ProgressBar(std::ostream& out) : out_(out) {}
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(Stage stage, std::uint64_t done, std::uint64_t total);

  /// Empties the line.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::ostream& out_;
  bool drawn_ = false;
  bool started_ = false;
  Stage stage_ = Stage::open;
  Clock::time_point stage_start_;
  Clock::time_point last_draw_;
};

}  // namespace spmm::cli
