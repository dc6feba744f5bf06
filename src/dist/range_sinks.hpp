// Where the records of one range of C go: straight into the file where its offset is known, else into memory.
#pragma once

#include <cstdint>
#include <deque>

#include "base/aligned_array.hpp"
#include "dist/page_split.hpp"
#include "dist/shared_output.hpp"
#include "spmm/stream.hpp"

namespace spmm::dist {

/// Takes the results of several products in a row; finish() and publish() do nothing.
class RangeSink : public Sink {
 public:
  void finish(const MatrixHeader&) override {}
  void publish() override {}
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 protected:
  std::uint64_t bytes_ = 0;
};

/// Writes at once. Errors: IoError.
class DirectSink : public RangeSink {
 public:
  DirectSink(const SharedOutput& file, std::uint64_t offset) : file_(file), offset_(offset) {}
  void append(std::span<const std::byte> records, std::function<void()> release) override;

 private:
  const SharedOutput& file_;
  std::uint64_t offset_;
};

/// Keeps records until their offset is known. Memory: what was appended. Errors: OutOfMemory beyond the limit.
class BufferSink : public RangeSink {
 public:
  explicit BufferSink(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  void append(std::span<const std::byte> records, std::function<void()> release) override;

  /// Writes the bytes [begin, end) of what is kept to file offset `offset`. Errors: IoError.
  void write(const SharedOutput& file, std::uint64_t begin, std::uint64_t end, std::uint64_t offset,
             unsigned num_threads) const;
  /// A copy of the bytes [begin, end).
  [[nodiscard]] Bytes copy(std::uint64_t begin, std::uint64_t end) const;

 private:
  template <class Body>
  void for_chunks(std::uint64_t begin, std::uint64_t end, const Body& body) const;

  std::uint64_t limit_bytes_;
  std::deque<AlignedArray<std::byte>> chunks_;
};

}  // namespace spmm::dist
