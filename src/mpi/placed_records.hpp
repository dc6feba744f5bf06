// Records of a rank's rows of C, written to their place in the output.
#pragma once

#include <cstdint>
#include <span>

#include "io/files/file_sink.hpp"
#include "mpi/communicator.hpp"
#include "mpi/page_split.hpp"
#include "mpi/shared_file.hpp"
#include "spmm/stream.hpp"

namespace spmm::mpi {

/// A part of the output: [begin, end) in bytes.
struct Place {
  std::uint64_t begin = kHeaderBytes;
  std::uint64_t end = kHeaderBytes;
};

/// A sink that writes whole pages of its place, and keeps what shares pages with other ranks for rank 0 to write.
/// Records that the place has no room for are only counted. On a device, where places mean nothing, all are written.
class PlacedRecords final : public Sink {
 public:
  /// Values: m = side of the blocks; is_first: this is rank 0, which writes all pages; num_writers as in Writers.
  PlacedRecords(SharedOutput& output, std::uint32_t m, Place place, bool is_first, unsigned num_writers);

  [[nodiscard]] bool takes_places() const override { return true; }
  /// Errors: IoError, OutOfMemory (more blocks than a file may have).
  void write(std::uint64_t first_block, std::span<const std::byte> records, Release release) override;
  bool read_back(std::uint64_t first_block, std::uint64_t count, std::byte* dst) override;
  void finish(const MatrixHeader&) override { writers_.drain(); }
  void publish() override {}

  /// Of all records so far.
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }

  /// What rank 0 is to write, for write_pieces().
  [[nodiscard]] Bytes shared_pages() const;

 private:
  void put(std::uint64_t offset, std::span<const std::byte> bytes);

  SharedOutput& output_;
  std::uint64_t record_bytes_;
  Place place_;
  PageSplit split_;
  Bytes head_;  ///< bytes of the place up to its first whole page
  Bytes tail_;  ///< and behind its last one
  std::uint64_t size_bytes_ = 0;
  io::Writers writers_;  // last: its threads end before anything else goes
};

/// Writes what another rank's shared_pages() has. Errors: IoError.
void write_pieces(SharedOutput& output, std::span<const std::byte> pieces);

}  // namespace spmm::mpi
