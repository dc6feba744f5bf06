// Lines from a file descriptor as they come.
#include "tools/batch/list/line_feed.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "io/system/descriptor.hpp"
#include "spmm/error.hpp"

namespace spmm::batch {
namespace {

constexpr std::size_t kFeedBytes = 65536;
constexpr std::size_t kLongestLine = 65536;  // beyond what a job may have

}  // namespace

std::vector<std::string> LineFeed::read_lines() {
  std::vector<std::string> lines;
  std::array<char, kFeedBytes> buffer;
  const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return lines;
  if (got < 0) throw IoError(name_, io::error_text(errno), "check where it comes from");
  for (ssize_t c = 0; c < got; ++c) {
    if (buffer[static_cast<std::size_t>(c)] == '\n') {
      if (!skips_) lines.push_back(std::move(rest_));
      rest_.clear();
      skips_ = false;
    } else if (!skips_) {
      rest_ += buffer[static_cast<std::size_t>(c)];
      if (rest_.size() < kLongestLine) continue;
      lines.push_back(std::move(rest_));
      rest_.clear();
      skips_ = true;
    }
  }
  ended_ = got == 0;
  if (ended_ && !rest_.empty() && !skips_) lines.push_back(std::move(rest_));
  return lines;
}

}  // namespace spmm::batch
