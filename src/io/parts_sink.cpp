#include "io/parts_sink.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/parallel.hpp"
#include "base/record_errors.hpp"
#include "base/record_head.hpp"
#include "base/text.hpp"
#include "io/crc32.hpp"
#include "io/format.hpp"
#include "io/output_file.hpp"
#include "io/parts_folder.hpp"
#include "io/parts_index.hpp"
#include "io/slice_writers.hpp"

namespace spmm::io {
namespace {

/// The checksum of a file whose pieces are written in any order. Memory: an entry for each piece that is ahead.
class PiecewiseCrc {
 public:
  /// Threads: any.
  void add(std::uint64_t offset, std::uint64_t bytes, std::uint32_t crc) {
    const std::lock_guard lock(mutex_);
    ahead_[offset] = {bytes, crc};
    for (auto next = ahead_.begin(); next != ahead_.end() && next->first == end_; next = ahead_.erase(next)) {
      crc_ = combine_crc32(crc_, next->second.second, next->second.first);
      end_ += next->second.first;
    }
  }

  /// Of the whole file, whose header was not added.
  [[nodiscard]] std::uint32_t with_header(const MatrixHeader& header) const {
    return combine_crc32(crc32(0, encode_header(header)), crc_, end_ - kHeaderBytes);
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint32_t>> ahead_;  // by offset: bytes and their checksum
  std::uint64_t end_ = kHeaderBytes;
  std::uint32_t crc_ = 0;  // of the records before end_
};

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

std::vector<std::string> file_names(std::uint32_t num_parts) {
  std::vector<std::string> names;
  for (std::uint32_t x = 0; x < num_parts; ++x) names.push_back(part_name(x));
  names.emplace_back(kIndexName);
  return names;
}

class FolderSink final : public PartsSink {
 public:
  FolderSink(const std::filesystem::path& path, std::uint32_t m, std::uint32_t num_parts,
             const FileSinkOptions& options, const FileSinkTuning& tuning)
      : m_(m),
        options_{.durable = options.durable},
        folder_(path, options, file_names(num_parts)),
        writers_(tuning.num_writers, whole_records(tuning.piece_bytes, m),
                 [this](const Piece& piece) { write(piece); }) {
    for (std::uint32_t x = 0; x < num_parts; ++x) {
      parts_.emplace_back(folder_.place_of(part_name(x)), options_, tuning);
    }
    parts_.front().rows.end = std::numeric_limits<std::uint32_t>::max();  // until there are ranges
  }

  [[nodiscard]] std::uint32_t num_ranges() const override { return static_cast<std::uint32_t>(parts_.size()); }
  [[nodiscard]] std::uint64_t max_blocks() const override { return std::numeric_limits<std::uint64_t>::max(); }

  void set_ranges(std::span<const BlockRows> ranges) override {
    if (ranges.size() != parts_.size()) {
      throw std::logic_error(text(folder_.name(), ": ", ranges.size(), " ranges for ", parts_.size(), " parts"));
    }
    for (std::size_t x = 0; x < ranges.size(); ++x) parts_[x].rows = ranges[x];
  }

  void append(std::span<const std::byte> records, std::function<void()> release) override {
    append_to(0, records, std::move(release));
  }

  void append_to(std::uint32_t range, std::span<const std::byte> records, std::function<void()> release) override {
    put({.offset = parts_.at(range).end_bytes,
         .bytes = records,
         .release = ReleaseOnce(std::move(release)),
         .file = range});
  }

  [[nodiscard]] bool takes_places() const override { return true; }

  void append_at(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records,
                 std::function<void()> release) override {
    put({.offset = kHeaderBytes + first_block * record_bytes(),
         .bytes = records,
         .release = ReleaseOnce(std::move(release)),
         .file = range});
  }

  bool watch(LookFn look) override {
    look_ = std::move(look);
    return true;
  }

  bool read_back(std::uint32_t range, std::uint64_t first_block, std::uint64_t count, std::byte* dst) override {
    return parts_.at(range).file.read_at(kHeaderBytes + first_block * record_bytes(), {dst, count * record_bytes()});
  }

  void finish(const MatrixHeader& header) override {
    writers_.drain();
    PartsIndex index{.n = header.n, .m = header.m};
    parts_.front().rows.end = std::min(parts_.front().rows.end, header.blocks_per_side());
    parts_.back().rows.end = header.blocks_per_side();
    for (std::uint32_t x = 0, row = 0; x < parts_.size(); ++x) {
      Part& part = parts_[x];
      const std::uint64_t num_blocks = (part.end_bytes - kHeaderBytes) / record_bytes();
      if (kHeaderBytes + part.put_bytes != part.end_bytes) {
        throw std::logic_error(text(part.file.name(), ": ", part.put_bytes, " bytes of ", num_blocks, " blocks"));
      }
      const MatrixHeader own{.n = header.n, .m = m_, .num_blocks = static_cast<std::uint32_t>(num_blocks)};
      part.file.finish(own);
      part.file.publish();  // inside the temporary folder
      index.parts.push_back({.file = part_name(x),
                             .row_begin = row,
                             .row_end = std::max(row, part.rows.end),
                             .num_blocks = own.num_blocks,
                             .bytes = part.end_bytes,
                             .crc32 = part.crc.with_header(own)});
      row = index.parts.back().row_end;
      index.num_blocks += num_blocks;
    }
    if (header.m != m_ || header.num_blocks != std::min<std::uint64_t>(index.num_blocks, 0xFFFF'FFFFu)) {
      throw std::logic_error(text(folder_.name(), ": finish() with ", header.num_blocks, " blocks of side ", header.m,
                                  " after ", index.num_blocks, " of side ", m_));
    }
    write_index(index_text(index));
    written_ = std::move(index.parts);
    finished_ = true;
  }

  void publish() override {
    if (!finished_) throw std::logic_error(folder_.name() + ": publish() without finish(), or twice");
    finished_ = false;
    folder_.publish();
  }

  [[nodiscard]] const std::vector<ResultPart>& parts() const override { return written_; }

 private:
  void put(Slice slice) {
    if (slice.bytes.empty()) return;
    Part& part = parts_.at(slice.file);
    check_place(part, slice.bytes);
    const std::uint64_t end = slice.offset + slice.bytes.size();
    check_num_output_blocks((end - kHeaderBytes) / record_bytes());
    if (end > part.end_bytes) part.file.expect_bytes(end);
    part.end_bytes = std::max(part.end_bytes, end);
    part.put_bytes += slice.bytes.size();
    writers_.push(std::move(slice));
  }

  [[nodiscard]] std::uint64_t record_bytes() const { return output_record_bytes(m_); }

  void check_place(const Part& part, std::span<const std::byte> records) const {
    if (records.size() % record_bytes() != 0) {
      throw std::logic_error(text(part.file.name(), ": ", records.size(), " bytes are not whole records"));
    }
    const std::uint32_t first = read_index(records.data()).i;
    const std::uint32_t last = read_index(records.data() + records.size() - record_bytes()).i;
    if (first >= part.rows.begin && last < part.rows.end) return;
    throw std::logic_error(text(part.file.name(), ": block rows ", first, " to ", last, ", expected some of [",
                                part.rows.begin, ", ", part.rows.end, ")"));
  }

  void write(const Piece& piece) {
    Part& part = parts_[piece.slice->file];
    if (look_) look_(piece.slice->file, (piece.offset - kHeaderBytes) / record_bytes(), piece.bytes);
    part.crc.add(piece.offset, piece.bytes.size(), crc32(0, piece.bytes));
    part.file.write_at(piece.offset, piece.bytes);
  }

  void write_index(const std::string& content) const {
    OutputFile file(folder_.place_of(kIndexName), options_, TempKind::automatic, WriteMode::pwrite);
    file.write_at(0, std::as_bytes(std::span(content)));
    file.finish();
    file.publish();
  }

  std::uint32_t m_;
  FileSinkOptions options_;
  PartsFolder folder_;
  std::deque<Part> parts_;  // entries stay where they are
  std::vector<ResultPart> written_;
  bool finished_ = false;
  LookFn look_;           // may be empty
  SliceWriters writers_;  // last: its threads end before anything else goes
};

}  // namespace

std::unique_ptr<PartsSink> open_tuned_parts_sink(const std::filesystem::path& path, std::uint32_t m,
                                                 std::uint32_t num_parts, const FileSinkOptions& options,
                                                 const FileSinkTuning& tuning) {
  return std::make_unique<FolderSink>(path, m, num_parts, options, tuning);
}

}  // namespace spmm::io

namespace spmm {

std::unique_ptr<Sink> open_parts_sink(const std::filesystem::path& path, std::uint32_t m, std::uint32_t num_parts,
                                      const FileSinkOptions& options) {
  constexpr std::uint32_t kMaxParts = 256;
  if (num_parts == 0 || num_parts > kMaxParts) {
    throw std::logic_error(text(path.string(), ": ", num_parts, " parts, expected 1 to ", kMaxParts));
  }
  return io::open_tuned_parts_sink(path, m, num_parts, options, io::fastest_tuning(usable_cores()));
}

}  // namespace spmm
