// Partial products exchanged and added up round by round.
#include "mpi/divide/partial_rounds.hpp"

#include <span>

#include "base/records/head.hpp"
#include "mpi/divide/result_merge.hpp"

namespace spmm::mpi {

void PartialRounds::find_unsent() {
  std::uint64_t num_records = 0;
  for (const slabs::KeptChunk& chunk : partial_.chunks()) {
    left_.push_back(chunk.used_bytes / output_record_bytes(m_));
    num_records += left_.back();
  }
  if (!left_.empty()) records_per_chunk_ = left_.front();  // all but the last one are full
  unsent_ = {{.next = 0, .end = num_records}};
  if (!division_.order.is_consecutive) return;
  for (std::uint32_t owner = 1; owner < division_.order.num_owners; ++owner) {
    const std::uint32_t first_row = division_.borders[std::size_t{owner} * division_.num_rounds - 1];
    std::uint64_t low = unsent_.back().next;
    for (std::uint64_t high = num_records; low < high;) {
      const std::uint64_t middle = (low + high) / 2;
      const bool is_before = read_index(record(middle)).i < first_row;
      (is_before ? low : high) = is_before ? middle + 1 : middle;
    }
    unsent_.back().end = low;
    unsent_.push_back({.next = low, .end = num_records});
  }
}

const std::byte* PartialRounds::record(std::uint64_t number) const {
  const slabs::KeptChunk& chunk = partial_.chunks()[number / records_per_chunk_];
  return chunk.memory.data() + number % records_per_chunk_ * output_record_bytes(m_);
}

std::vector<Bytes> PartialRounds::take(std::uint32_t round) {
  if (unsent_.empty()) find_unsent();
  std::vector<Bytes> to(static_cast<std::size_t>(group_.ranks.size()));
  for (UnsentRecords& records : unsent_) take_unsent(records, round, to);
  return to;
}

void PartialRounds::take_unsent(UnsentRecords& records, std::uint32_t round, std::vector<Bytes>& to) {
  for (; records.next < records.end; ++records.next) {
    const std::byte* const from = record(records.next);
    const std::uint32_t range = division_.range_of(read_index(from).i);
    if (division_.order.round_of(range, division_.num_rounds) != round) return;
    Bytes& bytes = to[division_.order.rank_of(range, division_.num_rounds)];
    bytes.insert(bytes.end(), from, from + output_record_bytes(m_));
    const std::uint64_t chunk = records.next / records_per_chunk_;
    if (--left_[chunk] == 0) partial_.chunks()[chunk].memory = {};
  }
}

void PartialRounds::exchange(std::uint32_t round) {
  received_ = swap_lists(group_, take(round));
}

std::vector<std::byte> PartialRounds::sum() {
  const std::vector<std::span<const std::byte>> parts(received_.begin(), received_.end());
  std::vector<std::byte> all = sum_of_results(parts, m_);
  received_.clear();
  return all;
}

}  // namespace spmm::mpi
