// The sources and sinks of a product in bands: a part of a matrix, results kept in memory, results merged again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/run.hpp"
#include "engine/slab_cut.hpp"
#include "spmm/stream.hpp"

namespace spmm::bands {

/// The records of one band, as a source of its own. Memory: 4 bytes per record.
class BandSource : public Source {
 public:
  BandSource(const Source& whole, const std::vector<std::uint16_t>& buckets, const Band& band);

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return whole_.name(); }
  [[nodiscard]] std::uint64_t original_record(std::uint64_t record) const override {
    return whole_.original_record(records_[record]);
  }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;
  void check_unchanged() const override { whole_.check_unchanged(); }

 private:
  const Source& whole_;
  MatrixHeader header_;
  std::vector<std::uint32_t> records_;  // ascending
};

/// Thrown by KeepingSink: the result of one band of A does not fit beside everything else.
struct BandTooLarge {};

/// Bytes that go back to the system as soon as they are freed; a heap would keep gigabytes of them.
class MappedBytes {
 public:
  /// Errors: std::bad_alloc.
  explicit MappedBytes(std::span<const std::byte> content);
  MappedBytes(MappedBytes&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  MappedBytes& operator=(MappedBytes&&) = delete;
  ~MappedBytes();

  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Keeps records in memory, up to a limit shared by several of them.
class KeepingSink : public Sink {
 public:
  explicit KeepingSink(std::uint64_t& left_bytes) : left_bytes_(left_bytes) {}

  void append(std::span<const std::byte> records, std::function<void()> release) override;
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  /// Whole records, in order.
  [[nodiscard]] std::deque<MappedBytes>& pieces() { return pieces_; }

 private:
  std::uint64_t& left_bytes_;
  std::deque<MappedBytes> pieces_;
};

/// Interleaves kept results row by row into `sink`; result number x holds the columns before those of number x + 1.
/// Empties `results`; returns when the sink has taken everything. Errors: what the sink throws.
void merge_rows(std::deque<KeepingSink>& results, std::uint32_t m, Sink& sink, const Run& run);

}  // namespace spmm::bands
