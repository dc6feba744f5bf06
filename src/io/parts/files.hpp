// The files of a result in parts that one process writes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/files/file_sink.hpp"
#include "io/files/output_file.hpp"
#include "io/files/slice_writers.hpp"
#include "spmm/report.hpp"
#include "spmm/stream.hpp"

namespace spmm::io {

/// The checksum of a file whose pieces are written in any order. Memory: an entry for each piece that is ahead.
class PiecewiseCrc {
 public:
  /// Threads: any.
  void add(std::uint64_t offset, std::uint64_t bytes, std::uint32_t crc);
  /// Of the whole file, whose header was not added.
  [[nodiscard]] std::uint32_t with_header(const MatrixHeader& header) const;

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint32_t>> ahead_;  // by offset: bytes and their checksum
  std::uint64_t end_ = kHeaderBytes;
  std::uint32_t crc_ = 0;  // of the records before end_
};

/// Some parts of a result, one after the other by their block rows, all growing at once.
/// Threads: one caller at a time.
class PartFiles {
 public:
  /// Which parts of the whole result they are.
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t count = 1;
  };
  using PlaceOf = std::function<Target(const std::string& file_name)>;

  /// Values: range.count >= 1. Errors: OutputError, and what place_of throws.
  PartFiles(std::uint32_t m, Range range, const PlaceOf& place_of, const FileSinkOptions& options,
            const FileSinkTuning& tuning);
  PartFiles(const PartFiles&) = delete;
  PartFiles& operator=(const PartFiles&) = delete;

  [[nodiscard]] std::uint32_t size() const { return range_.count; }

  /// Parts are numbered from 0 here. Values: block rows ascending from part to part.
  void set_rows(std::uint32_t part, BlockRows rows) { parts_.at(part).rows = rows; }
  /// Blocks in front of what append() would add.
  [[nodiscard]] std::uint64_t num_blocks(std::uint32_t part) const;

  /// As Sink::append_to() and append_at(). Errors: IoError; OutOfMemory where a part would have too many blocks.
  void append(std::uint32_t part, std::span<const std::byte> records, std::function<void()> release);
  void append_at(std::uint32_t part, std::uint64_t first_block, std::span<const std::byte> records,
                 std::function<void()> release);

  /// As Sink::watch() and read_back(); parts are the ranges.
  void watch(LookFn look) { look_ = std::move(look); }
  bool read_back(std::uint32_t part, std::uint64_t first_block, std::uint64_t count, std::byte* dst) {
    return parts_.at(part).file.read_at(kHeaderBytes + first_block * record_bytes(), {dst, count * record_bytes()});
  }

  /// Waits until everything is written. Errors: IoError.
  void drain() { writers_.drain(); }
  /// Completes the files, which get their names. Values: header = n and m of the whole; rows = of all these parts
  /// together. Errors: IoError, OutputError.
  std::vector<ResultPart> finish(const MatrixHeader& header, BlockRows rows);

 private:
  /// One file.
  struct Part {
    Part(Target target, const FileSinkOptions& options, const FileSinkTuning& tuning)
        : file(std::move(target), options, tuning.temp, tuning.mode) {}

    OutputFile file;
    BlockRows rows{};
    std::uint64_t end_bytes = kHeaderBytes;  ///< behind the last record so far
    std::uint64_t put_bytes = 0;             ///< of all records so far
    PiecewiseCrc crc{};
  };

  void put(Slice slice);
  void check_place(const Part& part, std::span<const std::byte> records) const;
  void check_size(const Part& part, std::uint64_t end_bytes) const;
  void write(const SlicePiece& piece);
  [[nodiscard]] std::uint64_t record_bytes() const { return output_record_bytes(m_); }

  std::uint32_t m_;
  Range range_;
  std::deque<Part> parts_;  // entries stay where they are
  LookFn look_;             // may be empty
  SliceWriters writers_;    // last: its threads end before anything else goes
};

}  // namespace spmm::io
