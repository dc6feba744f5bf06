// Words that are kMaxVal: one comparison and one subtraction for each vector.
#include "base/records/saturated_count.hpp"

#include <algorithm>
#include <cstring>

namespace spmm {

std::uint64_t count_saturated(std::span<const std::byte> records) {
  constexpr std::size_t kWordsAtOnce = 1u << 16;  // counts of 32 bits do not overflow
  const std::size_t num_words = records.size() / sizeof(std::uint32_t);
  std::uint64_t num_saturated = 0;
  for (std::size_t begin = 0; begin < num_words; begin += kWordsAtOnce) {
    const std::size_t end = std::min(begin + kWordsAtOnce, num_words);
    std::uint32_t here = 0;
    for (std::size_t x = begin; x < end; ++x) {
      std::uint32_t word = 0;
      std::memcpy(&word, records.data() + x * sizeof word, sizeof word);
      here += word == kMaxVal ? 1 : 0;
    }
    num_saturated += here;
  }
  return num_saturated;
}

}  // namespace spmm
