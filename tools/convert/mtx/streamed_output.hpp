// An output file that is written from front to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "io/files/output_file.hpp"

namespace spmm::tools {

/// Memory: 4 MB. Errors: OutputError, IoError, Interrupted.
class StreamedOutput {
 public:
  explicit StreamedOutput(const std::filesystem::path& path) : file_(path, {}) { buffer_.resize(kBufferBytes); }

  /// Says how long the file will be at least.
  void expect_bytes(std::uint64_t bytes) { file_.expect_bytes(bytes); }

  /// Room for so many bytes; what was written into it counts after used().
  char* room(std::size_t bytes) {
    if (used_ + bytes > buffer_.size()) flush(bytes);
    return buffer_.data() + used_;
  }
  void used(std::size_t bytes) { used_ += bytes; }

  void write(std::span<const std::byte> bytes);
  /// Leaves so many bytes zero. They take no space where the file system knows holes.
  void skip(std::uint64_t bytes);

  /// Writes the rest and gives the file its name.
  void publish();

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

  void flush(std::size_t next_bytes);

  io::OutputFile file_;
  std::vector<char> buffer_;
  std::size_t used_ = 0;
  std::uint64_t offset_ = 0;
  bool ends_with_hole_ = false;
};

}  // namespace spmm::tools
