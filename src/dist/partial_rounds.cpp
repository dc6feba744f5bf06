#include "dist/partial_rounds.hpp"

#include <span>

#include "base/record_head.hpp"
#include "dist/result_merge.hpp"

namespace spmm::dist {

std::vector<Bytes> PartialRounds::take(std::uint32_t round) {
  const auto num_ranks = static_cast<std::uint32_t>(group_.ranks.size());
  const std::uint64_t record = output_record_bytes(m_);
  std::vector<Bytes> to(num_ranks);
  std::deque<slabs::KeptChunk>& chunks = partial_.chunks();
  while (!chunks.empty()) {
    const slabs::KeptChunk& chunk = chunks.front();
    for (; at_ < chunk.used_bytes; at_ += record) {
      const std::byte* const from = chunk.memory.data() + at_;
      const std::uint32_t range = division_.range_of(read_index(from).i);
      if (range / num_ranks != round) return to;
      Bytes& bytes = to[range % num_ranks];
      bytes.insert(bytes.end(), from, from + record);
    }
    chunks.pop_front();
    at_ = 0;
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

}  // namespace spmm::dist
