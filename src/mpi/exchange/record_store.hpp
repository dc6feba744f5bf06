// Records, or their heads, that a rank has received, with their numbers in the file they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "base/memory/aligned_array.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm::mpi {

/// A record on its way between ranks: its number in the file (u32), then the packed record; or only its head {i, j},
/// where all ranks can read the file.
inline constexpr std::uint64_t kNumberBytes = sizeof(std::uint32_t);
constexpr std::uint64_t sent_record_bytes(std::uint32_t m) {
  return kNumberBytes + input_record_bytes(m);
}

inline constexpr std::uint64_t kSentHeadBytes = kNumberBytes + kIndexBytes;

/// Memory that several stores may take together.
class StoreLimit {
 public:
  explicit StoreLimit(std::uint64_t bytes) : limit_(bytes) {}

  /// Errors: OutOfMemory.
  void take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes) { used_ -= bytes; }
  [[nodiscard]] std::uint64_t used() const { return used_; }
  [[nodiscard]] std::uint64_t limit() const { return limit_; }

 private:
  std::uint64_t limit_;
  std::uint64_t used_ = 0;
};

/// Records in the order they were added. Memory: chunks of at most 4 MB, less where many stores share a small limit.
class RecordStore {
 public:
  /// Values: record_bytes = as they are sent, num_stores = that may be filled at the same time.
  RecordStore(std::uint64_t record_bytes, StoreLimit& limit, std::uint32_t num_stores = 1);
  ~RecordStore() { clear(); }
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  /// Shapes: sent whole records of record_bytes(). Errors: OutOfMemory.
  void add(std::span<const std::byte> sent);
  void clear();

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t record_bytes() const { return record_bytes_; }
  /// The record as it is sent. Shapes: [record_bytes()].
  [[nodiscard]] const std::byte* sent(std::uint64_t record) const {
    return chunks_[record / per_chunk_].data() + record % per_chunk_ * record_bytes_;
  }
  [[nodiscard]] BlockIndex index(std::uint64_t record) const;
  /// Its number in the file.
  [[nodiscard]] std::uint32_t number(std::uint64_t record) const;

 private:
  StoreLimit& limit_;
  std::uint64_t record_bytes_;
  std::uint64_t per_chunk_;
  std::uint64_t size_ = 0;
  std::deque<AlignedArray<std::byte>> chunks_;
};

/// Stored whole records as a separate matrix. The store must outlive it and stay as it is.
class StoreSource : public Source {
 public:
  /// Values: whole = where the records come from; it must outlive this source, too.
  StoreSource(const RecordStore& store, const Source& whole);

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return whole_.name(); }
  [[nodiscard]] std::uint64_t original_record(std::uint64_t record) const override { return store_.number(record); }
  [[nodiscard]] BlockIndex original_index(BlockIndex index) const override { return whole_.original_index(index); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;
  void check_unchanged() const override {}

 private:
  const RecordStore& store_;
  const Source& whole_;
  MatrixHeader header_;
};

}  // namespace spmm::mpi
