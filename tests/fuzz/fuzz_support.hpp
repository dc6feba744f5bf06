// What the fuzz targets share: numbers out of bytes, a file in memory, documented errors.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz_targets.hpp"
#include "spmm/error.hpp"

namespace spmm::fuzz {

/// Ends the process where a promise does not hold.
inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

/// Takes numbers from the front of the input; zeros once it is used up.
class InputBytes {
 public:
  explicit InputBytes(Bytes bytes) : left_(bytes) {}

  std::uint8_t u8() {
    if (left_.empty()) return 0;
    const std::uint8_t value = left_.front();
    left_ = left_.subspan(1);
    return value;
  }
  std::uint16_t u16() {
    const std::uint16_t low = u8();
    return static_cast<std::uint16_t>(low | u8() << 8);
  }
  /// Values: 0 to bound - 1.
  std::uint32_t below(std::uint32_t bound) { return (bound > 256 ? u16() : u8()) % bound; }
  bool flag() { return (u8() & 1) != 0; }
  Bytes take(std::size_t count) {
    const Bytes taken = left_.first(count < left_.size() ? count : left_.size());
    left_ = left_.subspan(taken.size());
    return taken;
  }
  [[nodiscard]] Bytes rest() const { return left_; }
  [[nodiscard]] bool empty() const { return left_.empty(); }

 private:
  Bytes left_;
};

inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline void append_u32(std::string& to, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) to += static_cast<char>(value >> shift & 0xFF);
}

/// A file without a name in memory, used again by every execution.
class ScratchFile {
 public:
  ScratchFile() : fd_(::memfd_create("input", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    require(fd_ >= 0, "memfd_create");
  }
  ~ScratchFile() { ::close(fd_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& holding(std::string_view content) {
    require(::ftruncate(fd_, 0) == 0, "ftruncate");
    require(::pwrite(fd_, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()), "pwrite");
    return path_;
  }

 private:
  int fd_;
  std::string path_;
};

/// Runs a reader; false where it rejects the input by an error that the product documents.
template <class Body>
bool accepted(const Body& body) {
  try {
    body();
    return true;
  } catch (const VerifyError&) {
    throw;
  } catch (const Error& error) {
    require(std::string_view(error.what()).find(": ") != std::string_view::npos, "errors name a place");
    return false;
  }
}

}  // namespace spmm::fuzz
