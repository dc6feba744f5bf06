// An output file that is written from front to back.
#include "tools/convert/mtx/streamed_output.hpp"

#include <algorithm>
#include <cstring>

#include "cli/program.hpp"

namespace spmm::tools {

void StreamedOutput::flush(std::size_t next_bytes) {
  cli::check_cancelled("spmm-convert");
  if (used_ > 0) {
    file_.write_at(offset_, std::as_bytes(std::span(buffer_).first(used_)));
    offset_ += used_;
    used_ = 0;
    ends_with_hole_ = false;
  }
  if (next_bytes > buffer_.size()) buffer_.resize(next_bytes);
}

void StreamedOutput::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t here = std::min(bytes.size(), kBufferBytes);
    std::memcpy(room(here), bytes.data(), here);
    used(here);
    bytes = bytes.subspan(here);
  }
}

void StreamedOutput::skip(std::uint64_t bytes) {
  constexpr std::uint64_t kWorthAHole = 65536;
  if (bytes < kWorthAHole) {
    std::memset(room(bytes), 0, bytes);
    used(bytes);
    return;
  }
  flush(0);
  offset_ += bytes;
  ends_with_hole_ = true;
}

void StreamedOutput::publish() {
  flush(0);
  if (ends_with_hole_) file_.write_at(offset_ - 1, std::as_bytes(std::span("", 1)));
  file_.finish();
  file_.publish();
}

}  // namespace spmm::tools
