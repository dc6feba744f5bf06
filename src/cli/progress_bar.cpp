// A progress bar on a terminal.
#include "cli/progress_bar.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/text.hpp"

namespace spmm::cli {
namespace {

constexpr std::chrono::milliseconds kRedrawInterval{100};
constexpr std::size_t kBarWidth = 30;
constexpr std::size_t kDefaultColumns = 80;

/// What a stage counts.
std::string amount(Stage stage, double value) {
  if (stage == Stage::multiply) return text(static_cast<std::uint64_t>(value), " rows");
  return human_bytes(static_cast<std::uint64_t>(value));
}

std::size_t terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kDefaultColumns;
}

}  // namespace

std::string clock_time(double seconds) {
  const auto s = static_cast<unsigned long long>(std::max(0.0, seconds));
  char out[32];
  if (s < 3600) {
    std::snprintf(out, sizeof out, "%llu:%02llu", s / 60, s % 60);
  } else {
    std::snprintf(out, sizeof out, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
  }
  return out;
}

bool wants_progress(ProgressMode mode) {
  if (mode != ProgressMode::automatic) return mode == ProgressMode::always;
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

std::string progress_line(Stage stage, std::uint64_t done, std::uint64_t total, double seconds, std::size_t width) {
  done = std::min(done, total);
  const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  const auto filled = static_cast<std::size_t>(share * kBarWidth);
  std::string line = text(stage_name(stage), " [", std::string(filled, '#'), std::string(kBarWidth - filled, '.'), "] ",
                          static_cast<int>(share * 100), "%");
  if (seconds > 0 && done > 0) {
    const double rate = static_cast<double>(done) / seconds;
    line += text("  ", amount(stage, rate), "/s  ETA ", clock_time(static_cast<double>(total - done) / rate));
  }
  return line.substr(0, width);
}

void ProgressBar::update(Stage stage, std::uint64_t done, std::uint64_t total) {
  const Clock::time_point now = Clock::now();
  if (!started_ || stage != stage_) {
    started_ = true;
    stage_ = stage;
    stage_start_ = now;
  }
  if (drawn_ && now - last_draw_ < kRedrawInterval) return;
  drawn_ = true;
  last_draw_ = now;
  const double seconds = std::chrono::duration<double>(now - stage_start_).count();
  out_ << '\r' << progress_line(stage, done, total, seconds, terminal_columns() - 1) << "\033[K" << std::flush;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  drawn_ = false;
  out_ << "\r\033[K" << std::flush;
}

}  // namespace spmm::cli
