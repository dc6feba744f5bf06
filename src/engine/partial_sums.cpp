#include "engine/partial_sums.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/record_head.hpp"
#include "base/saturating_sum.hpp"
#include "cpu/output_queue.hpp"
#include "plan/inner_parts.hpp"
#include "spmm/types.hpp"

namespace spmm {
namespace {

/// The records of a partial product by their numbers.
class Records {
 public:
  Records(const slabs::KeepingSink& kept, std::uint64_t record_bytes)
      : chunks_(kept.chunks()), record_bytes_(record_bytes) {
    for (const slabs::KeptChunk& chunk : chunks_) size_ += chunk.used_bytes / record_bytes_;
    if (!chunks_.empty()) per_chunk_ = chunks_.front().used_bytes / record_bytes_;  // all but the last one are full
  }

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::byte* operator[](std::uint64_t x) const {
    return chunks_[x / per_chunk_].memory.data() + x % per_chunk_ * record_bytes_;
  }
  /// The first record that is not before `at`.
  [[nodiscard]] std::uint64_t lower_bound(BlockIndex at) const {
    std::uint64_t low = 0;
    for (std::uint64_t high = size_; low < high;) {
      const std::uint64_t middle = (low + high) / 2;
      const bool is_before = read_index((*this)[middle]) < at;
      (is_before ? low : high) = is_before ? middle + 1 : middle;
    }
    return low;
  }

 private:
  const std::deque<slabs::KeptChunk>& chunks_;
  std::uint64_t record_bytes_;
  std::uint64_t size_ = 0;
  std::uint64_t per_chunk_ = 1;
};

/// Records of one partial product that are still to be added.
struct RecordRun {
  std::uint64_t next = 0;
  std::uint64_t end = 0;
};

class PartialSums {
 public:
  PartialSums(const std::deque<slabs::KeepingSink>& partials, std::uint32_t m)
      : m_(m), record_(output_record_bytes(m)) {
    for (const slabs::KeepingSink& kept : partials) records_.emplace_back(kept, record_);
    const auto longer = [](const Records& x, const Records& y) { return x.size() < y.size(); };
    guide_ = &*std::max_element(records_.begin(), records_.end(), longer);
    per_unit_ = std::max<std::uint64_t>(1, plan::kSumBufferBytes / 2 / record_);
  }

  /// Units are cut where records of the longest partial product begin.
  [[nodiscard]] std::uint64_t num_units() const {
    return std::max<std::uint64_t>(1, (guide_->size() + per_unit_ - 1) / per_unit_);
  }

  void add_unit(std::uint64_t unit, cpu::UnitOutput& out) const {
    std::vector<RecordRun> left;
    for (const Records& records : records_) left.push_back({border(records, unit), border(records, unit + 1)});
    while (const std::optional<BlockIndex> at = first_of(left)) {
      out.room();
      std::byte* const to = out.position();
      bool is_first = true;
      for (std::size_t p = 0; p < left.size(); ++p) {
        if (left[p].next == left[p].end) continue;
        const std::byte* const from = records_[p][left[p].next];
        if (read_index(from) != *at) continue;
        ++left[p].next;
        if (is_first) {
          std::memcpy(to, from, record_);
        } else {
          add_saturating(to + kIndexBytes, from + kIndexBytes, std::uint64_t{m_} * m_);
        }
        is_first = false;
      }
      out.advance_to(to + record_);
    }
  }

 private:
  [[nodiscard]] std::uint64_t border(const Records& records, std::uint64_t unit) const {
    if (unit == 0) return 0;
    return unit >= num_units() ? records.size() : records.lower_bound(read_index((*guide_)[unit * per_unit_]));
  }

  [[nodiscard]] std::optional<BlockIndex> first_of(const std::vector<RecordRun>& left) const {
    std::optional<BlockIndex> first;
    for (std::size_t p = 0; p < left.size(); ++p) {
      if (left[p].next == left[p].end) continue;
      const BlockIndex at = read_index(records_[p][left[p].next]);
      if (!first || at < *first) first = at;
    }
    return first;
  }

  std::uint32_t m_;
  std::uint64_t record_;
  std::vector<Records> records_;
  const Records* guide_ = nullptr;
  std::uint64_t per_unit_ = 1;
};

}  // namespace

std::uint64_t add_partials(const std::deque<slabs::KeepingSink>& partials, std::uint32_t m, Sink& sink,
                           const Run& run) {
  const auto timing = run.clock.scope(Stage::compact);
  const std::uint64_t record = output_record_bytes(m);
  const PartialSums sums(partials, m);
  const std::uint64_t buffer_bytes = std::max<std::uint64_t>(1, plan::kSumBufferBytes / record) * record;
  cpu::OutputQueue queue(sink, plan::num_sum_buffers(run.num_threads), buffer_bytes, record, run);
  std::uint64_t next_unit = 0;
  queue.run([&] {
    cpu::OutputQueue::Job job;
    std::uint64_t unit = 0;
    const auto claim = [&] {
      unit = next_unit;
      if (unit == sums.num_units()) return false;
      ++next_unit;
      return true;
    };
    while (queue.start(job, claim)) {
      run.check_cancelled();
      cpu::UnitOutput out(queue, job, record);
      sums.add_unit(unit, out);
      queue.finish(job);
    }
  });
  return queue.num_records();
}

}  // namespace spmm
