// The sources and sinks of a product out of core: a part of a matrix, results kept in memory, results merged again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>

#include "base/memory/aligned_array.hpp"
#include "base/records/sorted_source.hpp"
#include "base/run/run.hpp"
#include "engine/slabs/cut.hpp"
#include "engine/slabs/index_pass.hpp"
#include "spmm/stream.hpp"

namespace spmm::slabs {

/// The records of one slab, as a separate source. Memory: 4 bytes per record; while it reads, kReadBytes per
/// thread.
class SlabSource : public SortedSource {
 public:
  /// Errors: FormatError where `buckets` are of another reading than `slab` and the file has changed in between;
  /// Interrupted. So do reads, whose few records may be spread over the whole matrix.
  SlabSource(const Source& whole, const AlignedArray<std::uint16_t>& buckets, const Slab& slab, const Run& run);
  /// Values: records ascending.
  SlabSource(const Source& whole, AlignedArray<std::uint32_t> records, const Run& run);

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return whole_.name(); }
  [[nodiscard]] std::uint64_t original_record(std::uint64_t record) const override {
    return whole_.original_record(records_[record]);
  }
  [[nodiscard]] std::string place(std::uint64_t record) const override { return whole_.place(records_[record]); }
  [[nodiscard]] BlockIndex original_index(BlockIndex index) const override { return whole_.original_index(index); }
  [[nodiscard]] bool is_in_memory() const override { return whole_.is_in_memory(); }
  [[nodiscard]] bool is_sorted() const override { return spmm::is_sorted(whole_); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;
  void check_unchanged() const override { whole_.check_unchanged(); }

 private:
  void read_own(std::uint64_t first, std::uint64_t count, std::byte* dst) const;

  const Source& whole_;
  const Run& run_;
  MatrixHeader header_;
  AlignedArray<std::uint32_t> records_;  // ascending
};

/// Thrown by KeepingSink: the result of one slab of A does not fit in addition to everything else.
struct SlabResultTooLarge {};

/// Whole records in order. Memory: resident as far as it is filled.
struct KeptChunk {
  AlignedArray<std::byte> memory;
  std::uint64_t used_bytes = 0;
};

/// Keeps records in memory, up to a limit shared by several of them: in small chunks, which are freed soon while they
/// are merged.
class KeepingSink : public Sink {
 public:
  KeepingSink(std::uint64_t& left_bytes, std::uint64_t record_bytes)
      : left_bytes_(left_bytes), record_bytes_(record_bytes) {}

  /// Errors: SlabResultTooLarge, OutOfMemory.
  void append(std::span<const std::byte> records, std::function<void()> release) override;
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  /// All but the last one are full.
  [[nodiscard]] std::deque<KeptChunk>& chunks() { return chunks_; }
  [[nodiscard]] const std::deque<KeptChunk>& chunks() const { return chunks_; }

 private:
  std::uint64_t& left_bytes_;
  std::uint64_t record_bytes_;
  std::deque<KeptChunk> chunks_;
};

/// Interleaves kept results row by row into `sink`; result number x holds the columns before those of number x + 1.
/// Empties `results`; returns when the sink has released everything.
/// Memory: four buffers of 1 MB, whatever the length of a row. Errors: what the sink throws, Interrupted.
void merge_rows(std::deque<KeepingSink>& results, std::uint32_t m, Sink& sink, const Run& run);

}  // namespace spmm::slabs
