// Received records in chunks, within a limit.
#include "mpi/exchange/record_store.hpp"

#include <algorithm>
#include <cstring>

#include "base/records/head.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::mpi {
namespace {

constexpr std::uint64_t kMostChunkBytes = 4u << 20;
constexpr std::uint64_t kChunksOfLimit = 32;  // the last chunk of a store is half empty

}  // namespace

void StoreLimit::take(std::uint64_t bytes) {
  if (bytes > limit_ - std::min(limit_, used_)) {
    throw OutOfMemory("host memory", text("the records that this rank must hold need more than ", human_bytes(limit_)),
                      "raise --memory-limit, or use more ranks or nodes");
  }
  used_ += bytes;
}

RecordStore::RecordStore(std::uint64_t record_bytes, StoreLimit& limit, std::uint32_t num_stores)
    : limit_(limit),
      record_bytes_(record_bytes),
      per_chunk_(std::max<std::uint64_t>(
          1, std::min(kMostChunkBytes, limit.limit() / kChunksOfLimit / num_stores) / record_bytes_)) {}

void RecordStore::add(std::span<const std::byte> sent) {
  while (!sent.empty()) {
    const std::uint64_t at = size_ % per_chunk_;
    if (at == 0) {
      limit_.take(per_chunk_ * record_bytes_);
      chunks_.emplace_back(per_chunk_ * record_bytes_);
    }
    const std::uint64_t count = std::min<std::uint64_t>(per_chunk_ - at, sent.size() / record_bytes_);
    std::memcpy(chunks_.back().data() + at * record_bytes_, sent.data(), count * record_bytes_);
    size_ += count;
    sent = sent.subspan(count * record_bytes_);
  }
}

void RecordStore::clear() {
  limit_.give_back(chunks_.size() * per_chunk_ * record_bytes_);
  chunks_.clear();
  size_ = 0;
}

BlockIndex RecordStore::index(std::uint64_t record) const {
  return read_index(sent(record) + kNumberBytes);
}

std::uint32_t RecordStore::number(std::uint64_t record) const {
  std::uint32_t number = 0;
  std::memcpy(&number, sent(record), sizeof number);
  return number;
}

StoreSource::StoreSource(const RecordStore& store, const Source& whole)
    : store_(store), whole_(whole), header_(whole.header()) {
  header_.num_blocks = static_cast<std::uint32_t>(store.size());
}

void StoreSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  const std::uint64_t bytes = input_record_bytes(header_.m);
  for (std::uint64_t r = first; r < first + count; ++r, dst += bytes) {
    std::memcpy(dst, store_.sent(r) + kNumberBytes, bytes);
  }
}

}  // namespace spmm::mpi
