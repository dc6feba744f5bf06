// Lines from a file descriptor as they come.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace spmm::batch {

class LineFeed {
 public:
  /// Values: name = for messages.
  explicit LineFeed(int fd, std::string name = "standard input") : fd_(fd), name_(std::move(name)) {}

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool has_ended() const { return ended_; }

  /// Reads once and returns the lines that are complete now; the last line of the input needs no newline.
  /// A line without end is cut, so that memory stays bounded. Errors: IoError.
  std::vector<std::string> read_lines();

 private:
  int fd_;
  std::string name_;
  std::string rest_;
  bool skips_ = false;  ///< the rest of a line that was cut
  bool ended_ = false;
};

}  // namespace spmm::batch
