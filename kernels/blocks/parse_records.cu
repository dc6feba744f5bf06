// Raw file records -> sort keys and packed elements.
#include "kernels/check.hpp"
#include "kernels/launch.hpp"

namespace spmm::kernels {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWordsPerThread = 4;
constexpr unsigned kWordsPerCta = kThreads * kWordsPerThread;

/// Largest value in a warp, on its first lane.
__device__ std::uint32_t warp_max(std::uint32_t value) {
  for (unsigned offset = 16; offset > 0; offset /= 2) value = max(value, __shfl_down_sync(0xFFFFFFFFu, value, offset));
  return value;
}

/// Where parsed records go.
struct Parsed {
  std::uint64_t first;  // number of the chunk's first record
  std::uint32_t m;
  bool transpose;
  std::uint32_t nb;
  unsigned key_bits;
  std::uint64_t* keys;
  std::uint16_t* values;
  unsigned long long* first_bad;

  __device__ void put_key(std::uint32_t record, std::uint32_t i, std::uint32_t j) const {
    if (i >= nb || j >= nb) {
      atomicMin(first_bad, static_cast<unsigned long long>(first + record));  // lowest record wins; rare
    }
    keys[first + record] = std::uint64_t{i} << key_bits | j;
  }
  __device__ void put_element(std::uint32_t record, std::uint32_t e, std::uint16_t value) const {
    const std::uint32_t to = transpose ? e % m * m + e / m : e;
    values[(first + record) * (m * m) + to] = value;
  }
};

/// A word of a record whose 8-byte words hold the head or four elements. Returns the largest element.
__device__ inline std::uint32_t parse_word(const uint2* raw, std::uint32_t word, std::uint32_t m, const Parsed& to) {
  const std::uint32_t record_words = 1 + m * m / 4;
  const std::uint32_t record = word / record_words;
  const std::uint32_t o = word % record_words;
  const uint2 four = raw[word];
  if (o == 0) {
    to.put_key(record, four.x, four.y);
    return 0;
  }
  if (!to.transpose) {
    reinterpret_cast<uint2*>(to.values)[(to.first + record) * (record_words - 1) + (o - 1)] = four;
  } else {
    const std::uint32_t e = (o - 1) * 4;
    to.put_element(record, e, static_cast<std::uint16_t>(four.x));
    to.put_element(record, e + 1, static_cast<std::uint16_t>(four.x >> 16));
    to.put_element(record, e + 2, static_cast<std::uint16_t>(four.y));
    to.put_element(record, e + 3, static_cast<std::uint16_t>(four.y >> 16));
  }
  return max(max(four.x & 0xFFFFu, four.x >> 16), max(four.y & 0xFFFFu, four.y >> 16));
}

/// The same by 16-bit words: records of odd m are only 2-byte aligned.
__device__ inline std::uint32_t parse_word(const std::uint16_t* raw, std::uint32_t word, std::uint32_t m,
                                           const Parsed& to) {
  constexpr std::uint32_t kHeadWords = 4;  // i and j
  const std::uint32_t record = word / (kHeadWords + m * m);
  const std::uint32_t o = word % (kHeadWords + m * m);
  if (o >= kHeadWords) {
    to.put_element(record, o - kHeadWords, raw[word]);
    return raw[word];
  }
  if (o == 0) {
    to.put_key(record, raw[word] | std::uint32_t{raw[word + 1]} << 16,
               raw[word + 2] | std::uint32_t{raw[word + 3]} << 16);
  }
  return 0;
}

// Grid: one CTA per kWordsPerCta words of the raw chunk. Word: 8 bytes where m is even. M: 0 = at run time.
// Work: neighbouring threads read neighbouring words; elements are written contiguously, or, transposed, within the
//       128 bytes or so of their block.
// Memory: one atomic per warp for the largest element, and only where it would raise it.
template <class Word, std::uint32_t M>
__global__ void __launch_bounds__(kThreads)
    parse_records(const Word* raw, std::uint32_t num_words, Parsed to, std::uint32_t* max_element) {
  const std::uint32_t first = blockIdx.x * kWordsPerCta + threadIdx.x;
  if (M != 0) to.m = M;
  std::uint32_t largest = 0;
#pragma unroll
  for (std::uint32_t x = 0; x < kWordsPerThread; ++x) {
    const std::uint32_t word = first + x * kThreads;
    if (word < num_words) largest = max(largest, parse_word(raw, word, to.m, to));
  }
  largest = warp_max(largest);
  if (threadIdx.x % 32 == 0 && largest > *max_element) atomicMax(max_element, largest);  // rare after the first chunk
}

template <class Word, std::uint32_t M>
void launch(const std::byte* raw, std::uint64_t count, const Parsed& to, std::uint32_t* max_element,
            cudaStream_t stream) {
  const auto num_words = static_cast<std::uint32_t>(count * (8 + std::uint64_t{2} * to.m * to.m) / sizeof(Word));
  const unsigned grid = (num_words - 1) / kWordsPerCta + 1;
  parse_records<Word, M><<<grid, kThreads, 0, stream>>>(reinterpret_cast<const Word*>(raw), num_words, to, max_element);
  check_launch("parse_records");
}

}  // namespace

void launch_parse_records(const std::byte* raw, std::uint64_t first, std::uint64_t count, std::uint32_t m,
                          bool transpose, std::uint32_t nb, unsigned key_bits, std::uint64_t* keys,
                          std::uint16_t* values, unsigned long long* first_bad, std::uint32_t* max_element,
                          cudaStream_t stream) {
  if (count == 0) return;
  const Parsed to{.first = first,
                  .m = m,
                  .transpose = transpose,
                  .nb = nb,
                  .key_bits = key_bits,
                  .keys = keys,
                  .values = values,
                  .first_bad = first_bad};
  if (m == 4) {
    launch<uint2, 4>(raw, count, to, max_element, stream);
  } else if (m == 8) {
    launch<uint2, 8>(raw, count, to, max_element, stream);
  } else if (m % 2 == 0) {
    launch<uint2, 0>(raw, count, to, max_element, stream);
  } else {
    launch<std::uint16_t, 0>(raw, count, to, max_element, stream);
  }
}

}  // namespace spmm::kernels
