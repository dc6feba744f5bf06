// Reading the records of a slab; merging kept results row by row.
#include "engine/slabs/streams.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/records/release_once.hpp"
#include "base/run/cancellable.hpp"
#include "cpu/output/queue.hpp"
#include "engine/slabs/index_pass.hpp"

namespace spmm::slabs {
namespace {

constexpr std::uint64_t kKeptChunkBytes = 1u << 20;
constexpr std::uint64_t kMergeBufferBytes = 1u << 20;  // on its way to the sink
constexpr std::uint64_t kNumMergeBuffers = 4;

/// As many whole records as fit, at least one.
std::uint64_t whole_records(std::uint64_t bytes, std::uint64_t record_bytes) {
  return std::max<std::uint64_t>(1, bytes / record_bytes) * record_bytes;
}

/// Reads kept records in order and frees what has been read.
class KeptRecords {
 public:
  KeptRecords(KeepingSink& sink, std::uint64_t record_bytes) : chunks_(sink.chunks()), record_bytes_(record_bytes) {}

  /// The row of the next record; nothing at the end.
  [[nodiscard]] std::optional<std::uint32_t> row() const {
    if (chunks_.empty()) return std::nullopt;
    return read_index(front()).i;
  }

  /// Moves the records of `row` that come next and fit to the output; false when the row has no more.
  bool move_row(std::uint32_t row, cpu::RowUnitOutput& out) {
    if (this->row() != row) return false;
    const std::byte* const begin = front();
    const std::uint64_t in_chunk = (chunks_.front().used_bytes - at_) / record_bytes_;
    const std::uint64_t most = std::min(out.room(), in_chunk);
    std::uint64_t count = 1;
    while (count < most && read_index(begin + count * record_bytes_).i == row) ++count;
    const std::uint64_t bytes = count * record_bytes_;
    std::memcpy(out.position(), begin, bytes);
    out.advance_to(out.position() + bytes);
    at_ += bytes;
    if (at_ == chunks_.front().used_bytes) {
      chunks_.pop_front();
      at_ = 0;
    }
    return true;
  }

 private:
  [[nodiscard]] const std::byte* front() const { return chunks_.front().memory.data() + at_; }

  std::deque<KeptChunk>& chunks_;  // none is empty
  std::uint64_t record_bytes_;
  std::uint64_t at_ = 0;  // in the first chunk
};

/// The first row that any of the parts still has.
std::optional<std::uint32_t> next_row(const std::vector<KeptRecords>& parts) {
  std::optional<std::uint32_t> first;
  for (const KeptRecords& part : parts) {
    const std::optional<std::uint32_t> row = part.row();
    if (row && (!first || *row < *first)) first = row;
  }
  return first;
}

}  // namespace

SlabSource::SlabSource(const Source& whole, const AlignedArray<std::uint16_t>& buckets, const Slab& slab,
                       const Run& run)
    : whole_(whole), run_(run), header_(whole.header()), records_(slab.num_blocks) {
  std::uint64_t count = 0;
  for_ranges(run, buckets.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) {
      if (buckets[r] < slab.begin || buckets[r] >= slab.end) continue;
      if (count < records_.size()) records_[count] = static_cast<std::uint32_t>(r);
      ++count;
    }
  });
  if (count != records_.size()) throw_changed_content(whole.name());
  header_.num_blocks = static_cast<std::uint32_t>(count);
}

SlabSource::SlabSource(const Source& whole, AlignedArray<std::uint32_t> records, const Run& run)
    : whole_(whole), run_(run), header_(whole.header()), records_(std::move(records)) {
  header_.num_blocks = static_cast<std::uint32_t>(records_.size());
}

void SlabSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  if (count == 0) return;
  if (whole_.is_in_memory()) return read_own(first, count, dst);
  const std::uint64_t bytes = input_record_bytes(header_.m);
  const std::uint64_t distance = records_[first + count - 1] - records_[first] + std::uint64_t{1};
  const std::uint64_t most = std::min(distance, std::max<std::uint64_t>(1, kReadBytes / bytes));
  const AlignedArray<std::byte> raw(most * bytes);
  for (std::uint64_t x = first; x < first + count;) {
    run_.check_cancelled();
    const std::uint64_t begin = records_[x];
    std::uint64_t end = x;  // one read for all wanted records that are not too far apart
    while (end < first + count && records_[end] - begin < most) ++end;
    whole_.read(begin, records_[end - 1] + 1 - begin, raw.data());
    for (; x < end; ++x, dst += bytes) std::memcpy(dst, raw.data() + (records_[x] - begin) * bytes, bytes);
  }
}

/// Neighbours at once, and none of the records between them.
void SlabSource::read_own(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  const std::uint64_t bytes = input_record_bytes(header_.m);
  for (std::uint64_t x = first, end = first; x < first + count; x = end) {
    run_.check_cancelled();
    do ++end;
    while (end < first + count && records_[end] == records_[end - 1] + 1);
    whole_.read(records_[x], end - x, dst);
    dst += (end - x) * bytes;
  }
}

void KeepingSink::append(std::span<const std::byte> records, std::function<void()> release) {
  const ReleaseOnce release_at_end(std::move(release));
  if (records.size() > left_bytes_) throw SlabResultTooLarge();
  left_bytes_ -= records.size();
  while (!records.empty()) {
    if (chunks_.empty() || chunks_.back().used_bytes == chunks_.back().memory.size()) {
      KeptChunk chunk{.memory = AlignedArray<std::byte>(whole_records(kKeptChunkBytes, record_bytes_), Pages::small)};
      chunks_.push_back(std::move(chunk));
    }
    KeptChunk& last = chunks_.back();
    const std::uint64_t size = std::min<std::uint64_t>(records.size(), last.memory.size() - last.used_bytes);
    std::memcpy(last.memory.data() + last.used_bytes, records.data(), size);
    last.used_bytes += size;
    records = records.subspan(size);
  }
}

void merge_rows(std::deque<KeepingSink>& results, std::uint32_t m, Sink& sink, const Run& run) {
  const auto timing = run.clock.scope(Stage::write);
  const std::uint64_t record = output_record_bytes(m);
  std::vector<KeptRecords> parts;
  parts.reserve(results.size());
  for (KeepingSink& result : results) parts.emplace_back(result, record);
  cpu::OutputQueue queue(sink, kNumMergeBuffers, whole_records(kMergeBufferBytes, record), record, run);
  cpu::OutputQueue::Job job;
  queue.start(job, [] { return true; });
  cpu::RowUnitOutput out(queue, job, record);
  out.set_may_saturate(false);  // counted before
  while (const std::optional<std::uint32_t> row = next_row(parts)) {
    for (KeptRecords& part : parts) {  // slabs of B follow each other along the row
      run.check_cancelled();
      while (part.move_row(*row, out)) {
      }
    }
  }
  queue.finish(job);
  queue.wait_until_released();
}

}  // namespace spmm::slabs
