#include "dist/range_sinks.hpp"

#include <algorithm>
#include <cstring>

#include "base/parallel.hpp"
#include "base/release_once.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::dist {
namespace {

constexpr std::uint64_t kChunkBytes = 8u << 20;
constexpr std::uint64_t kPieceBytes = 1u << 20;  // of one write

}  // namespace

void DirectSink::append(std::span<const std::byte> records, std::function<void()> release) {
  const ReleaseOnce release_at_end(std::move(release));
  file_.write_at(offset_ + bytes_, records);
  bytes_ += records.size();
}

void BufferSink::append(std::span<const std::byte> records, std::function<void()> release) {
  const ReleaseOnce release_at_end(std::move(release));
  if (records.size() > limit_bytes_ - std::min(limit_bytes_, bytes_)) {
    throw OutOfMemory(
        "host memory",
        text("the result of a block row does not fit the ", human_bytes(limit_bytes_), " that a rank may keep of it"),
        "raise --memory-limit");
  }
  while (!records.empty()) {
    const std::uint64_t at = bytes_ % kChunkBytes;
    if (at == 0) chunks_.emplace_back(kChunkBytes);
    const std::uint64_t size = std::min<std::uint64_t>(records.size(), kChunkBytes - at);
    std::memcpy(chunks_.back().data() + at, records.data(), size);
    bytes_ += size;
    records = records.subspan(size);
  }
}

template <class Body>
void BufferSink::for_chunks(std::uint64_t begin, std::uint64_t end, const Body& body) const {
  while (begin < end) {
    const std::uint64_t at = begin % kChunkBytes;
    const std::uint64_t size = std::min(end - begin, kChunkBytes - at);
    body(begin, std::span<const std::byte>(chunks_[begin / kChunkBytes].data() + at, size));
    begin += size;
  }
}

void BufferSink::write(const SharedOutput& file, std::uint64_t begin, std::uint64_t end, std::uint64_t offset,
                       unsigned num_threads) const {
  parallel_for(num_threads, end - begin, kPieceBytes, [&](std::uint64_t piece_begin, std::uint64_t piece_end) {
    for_chunks(begin + piece_begin, begin + piece_end,
               [&](std::uint64_t at, std::span<const std::byte> bytes) { file.write_at(offset + at - begin, bytes); });
  });
}

Bytes BufferSink::copy(std::uint64_t begin, std::uint64_t end) const {
  Bytes copied;
  for_chunks(begin, end, [&](std::uint64_t, std::span<const std::byte> bytes) {
    copied.insert(copied.end(), bytes.begin(), bytes.end());
  });
  return copied;
}

}  // namespace spmm::dist
