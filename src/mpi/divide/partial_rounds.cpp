// Partial products exchanged and added up round by round.
#include "mpi/divide/partial_rounds.hpp"

#include <span>

#include "base/records/head.hpp"
#include "mpi/divide/result_merge.hpp"

namespace spmm::mpi {

std::vector<Bytes> PartialRounds::take(std::uint32_t round) {
  const std::uint64_t record = output_record_bytes(m_);
  std::vector<Bytes> to(static_cast<std::size_t>(group_.ranks.size()));
  for (; chunk_ < partial_.chunks().size(); ++chunk_, next_byte_ = 0) {
    slabs::KeptChunk& chunk = partial_.chunks()[chunk_];
    for (; next_byte_ < chunk.used_bytes; next_byte_ += record) {
      const std::byte* const from = chunk.memory.data() + next_byte_;
      const std::uint32_t row = read_index(from).i;
      if (division_.round_of(row) != round) return to;
      Bytes& bytes = to[division_.rank_of(row)];
      bytes.insert(bytes.end(), from, from + record);
    }
    chunk.memory = {};
  }
  return to;
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
