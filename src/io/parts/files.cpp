// The files of parts, each with its writer and checksum.
#include "io/parts/files.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "io/formats/crc32.hpp"
#include "io/formats/format.hpp"
#include "io/formats/parts_index.hpp"
#include "spmm/error.hpp"

namespace spmm::io {

void PiecewiseCrc::add(std::uint64_t offset, std::uint64_t bytes, std::uint32_t crc) {
  const std::lock_guard lock(mutex_);
  ahead_[offset] = {bytes, crc};
  for (auto next = ahead_.begin(); next != ahead_.end() && next->first == end_; next = ahead_.erase(next)) {
    crc_ = combine_crc32(crc_, next->second.second, next->second.first);
    end_ += next->second.first;
  }
}

std::uint32_t PiecewiseCrc::with_header(const MatrixHeader& header) const {
  return combine_crc32(crc32(0, encode_header(header)), crc_, end_ - kHeaderBytes);
}

PartFiles::PartFiles(std::uint32_t m, Range range, const PlaceOf& place_of, const FileSinkOptions& options,
                     const FileSinkTuning& tuning)
    : m_(m),
      range_(range),
      writers_(
          tuning.num_writers, whole_records(tuning.piece_bytes, m), [this](const SlicePiece& piece) { write(piece); },
          tuning.clock) {
  const FileSinkOptions of_file{.durable = options.durable};
  for (std::uint32_t x = 0; x < range.count; ++x) {
    parts_.emplace_back(place_of(part_name(range.first + x)), of_file, tuning);
    parts_.back().file.expect_result(tuning.result_bytes);
  }
  parts_.front().rows.end = std::numeric_limits<std::uint32_t>::max();  // until there are ranges
}

std::uint64_t PartFiles::num_blocks(std::uint32_t part) const {
  return (parts_.at(part).end_bytes - kHeaderBytes) / record_bytes();
}

void PartFiles::append(std::uint32_t part, std::span<const std::byte> records, std::function<void()> release) {
  put({.offset = parts_.at(part).end_bytes,
       .bytes = records,
       .release = ReleaseOnce(std::move(release)),
       .file = part});
}

void PartFiles::append_at(std::uint32_t part, std::uint64_t first_block, std::span<const std::byte> records,
                          std::function<void()> release) {
  put({.offset = kHeaderBytes + first_block * record_bytes(),
       .bytes = records,
       .release = ReleaseOnce(std::move(release)),
       .file = part});
}

void PartFiles::put(Slice slice) {
  if (slice.bytes.empty()) return;
  Part& part = parts_.at(slice.file);
  check_place(part, slice.bytes);
  const std::uint64_t end = slice.offset + slice.bytes.size();
  check_size(part, end);
  if (end > part.end_bytes) part.file.expect_bytes(end);
  part.end_bytes = std::max(part.end_bytes, end);
  part.put_bytes += slice.bytes.size();
  writers_.push(std::move(slice));
}

void PartFiles::check_place(const Part& part, std::span<const std::byte> records) const {
  if (records.size() % record_bytes() != 0) {
    throw std::logic_error(text(part.file.name(), ": ", records.size(), " bytes are not whole records"));
  }
  const std::uint32_t first = read_index(records.data()).i;
  const std::uint32_t last = read_index(records.data() + records.size() - record_bytes()).i;
  if (first >= part.rows.begin && last < part.rows.end) return;
  throw std::logic_error(text(part.file.name(), ": block rows ", first, " to ", last, ", expected some of [",
                              part.rows.begin, ", ", part.rows.end, ")"));
}

void PartFiles::check_size(const Part& part, std::uint64_t end_bytes) const {
  const std::uint64_t most = max_output_blocks();
  if ((end_bytes - kHeaderBytes) / record_bytes() <= most) return;
  throw OutOfMemory(
      part.file.name(), text("the part has more than ", most, " non-zero blocks, the most a file holds"),
      "take more parts (ProductOptions::num_parts), multiply parts of the matrices, or use larger blocks");
}

void PartFiles::write(const SlicePiece& piece) {
  Part& part = parts_[piece.slice->file];
  if (look_) look_(piece.slice->file, (piece.offset - kHeaderBytes) / record_bytes(), piece.bytes);
  part.crc.add(piece.offset, piece.bytes.size(), crc32(0, piece.bytes));
  part.file.write_at(piece.offset, piece.bytes);
}

std::vector<ResultPart> PartFiles::finish(const MatrixHeader& header, BlockRows rows) {
  writers_.drain();
  std::vector<ResultPart> written;
  for (std::uint32_t x = 0, row = rows.begin; x < parts_.size(); ++x) {
    Part& part = parts_[x];
    if (kHeaderBytes + part.put_bytes != part.end_bytes) {
      throw std::logic_error(text(part.file.name(), ": ", part.put_bytes, " bytes of ", num_blocks(x), " blocks"));
    }
    const std::uint32_t end = x + 1 == parts_.size() ? rows.end : std::clamp(part.rows.end, row, rows.end);
    const MatrixHeader own{.n = header.n, .m = m_, .num_blocks = static_cast<std::uint32_t>(num_blocks(x))};
    part.file.finish(own);
    part.file.publish();  // inside the temporary folder
    written.push_back({.file = part_name(range_.first + x),
                       .row_begin = row,
                       .row_end = end,
                       .num_blocks = own.num_blocks,
                       .bytes = part.end_bytes,
                       .crc32 = part.crc.with_header(own)});
    row = end;
  }
  return written;
}

}  // namespace spmm::io
