// Partial products exchanged and added up round by round.
#include "mpi/divide/partial_rounds.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/records/head.hpp"
#include "mpi/divide/result_merge.hpp"
#include "spmm/error.hpp"

namespace spmm::mpi {

void KeepingSink::write(std::uint64_t, std::span<const std::byte> records, Release) {
  constexpr std::uint64_t kChunkBytes = 1u << 20;
  if (records.size() > left_bytes_) {
    throw OutOfMemory("host memory", "a partial product is larger than was counted",
                      "raise the memory limit, or start fewer ranks");
  }
  left_bytes_ -= records.size();
  while (!records.empty()) {
    if (chunks_.empty() || chunks_.back().used_bytes == chunks_.back().memory.size()) {
      const std::uint64_t bytes = std::max<std::uint64_t>(1, kChunkBytes / record_bytes_) * record_bytes_;
      chunks_.push_back({.memory = AlignedArray<std::byte>(bytes, Pages::small)});
    }
    Chunk& last = chunks_.back();
    const std::uint64_t size = std::min<std::uint64_t>(records.size(), last.memory.size() - last.used_bytes);
    std::memcpy(last.memory.data() + last.used_bytes, records.data(), size);
    last.used_bytes += size;
    records = records.subspan(size);
  }
}

std::vector<Bytes> PartialRounds::take(std::uint32_t round) {
  const std::uint64_t record = output_record_bytes(m_);
  std::vector<Bytes> to(static_cast<std::size_t>(group_.ranks.size()));
  for (; chunk_ < partial_.chunks().size(); ++chunk_, next_byte_ = 0) {
    KeepingSink::Chunk& chunk = partial_.chunks()[chunk_];
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
