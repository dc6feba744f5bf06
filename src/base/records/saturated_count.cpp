// Nearly always nothing is at the limit: the largest of many words is found first, which takes one instruction for each
// vector, and words are counted only if it is kMaxVal.
#include "base/records/saturated_count.hpp"

#include <algorithm>
#include <cstring>

namespace spmm {
namespace {

constexpr std::size_t kWordsAtOnce = 2048;
constexpr std::size_t kLanes = 32;

[[gnu::always_inline]] inline std::uint32_t word(const std::byte* words, std::size_t number) {
  std::uint32_t value = 0;
  std::memcpy(&value, words + number * sizeof value, sizeof value);
  return value;
}

/// The largest of some words.
[[gnu::always_inline]] inline std::uint32_t largest_word(const std::byte* words, std::size_t begin, std::size_t end) {
  std::uint32_t largest = 0;
  if (end - begin >= kLanes) {
    std::uint32_t lanes[kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = word(words, begin + lane);
    for (begin += kLanes; begin + kLanes <= end; begin += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = std::max(lanes[lane], word(words, begin + lane));
    }
    for (const std::uint32_t lane : lanes) largest = std::max(largest, lane);
  }
  for (; begin < end; ++begin) largest = std::max(largest, word(words, begin));
  return largest;
}

/// How many of some words are kMaxVal. Values: end - begin <= kWordsAtOnce.
[[gnu::always_inline]] inline std::uint32_t count_piece(const std::byte* words, std::size_t begin, std::size_t end) {
  std::uint32_t lanes[kLanes] = {};
  for (; begin + kLanes <= end; begin += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += word(words, begin + lane) == kMaxVal ? 1 : 0;
  }
  std::uint32_t count = 0;
  for (const std::uint32_t lane : lanes) count += lane;
  for (; begin < end; ++begin) count += word(words, begin) == kMaxVal ? 1 : 0;
  return count;
}

[[gnu::always_inline]] inline std::uint64_t count_words(const std::byte* words, std::size_t count) {
  std::uint64_t num_saturated = 0;
  std::uint32_t here = 0;  // where one is, there often are more
  for (std::size_t end = 0, begin = 0; begin < count; begin = end) {
    end = std::min(begin + kWordsAtOnce, count);
    if (here == 0 && largest_word(words, begin, end) != kMaxVal) continue;
    here = count_piece(words, begin, end);
    num_saturated += here;
  }
  return num_saturated;
}

using CountWords = std::uint64_t (*)(const std::byte* words, std::size_t count);

std::uint64_t count_anywhere(const std::byte* words, std::size_t count) {
  return count_words(words, count);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] std::uint64_t count_avx2(const std::byte* words, std::size_t count) {
  return count_words(words, count);
}
CountWords choose_count() {
  return __builtin_cpu_supports("avx2") ? count_avx2 : count_anywhere;
}
#else
CountWords choose_count() {
  return count_anywhere;
}
#endif

}  // namespace

std::uint64_t count_saturated(std::span<const std::byte> records) {
  static const CountWords count = choose_count();
  return count(records.data(), records.size() / sizeof(std::uint32_t));
}

}  // namespace spmm
