// Raw file records -> sort keys and packed elements.
#include "kernels/check.hpp"
#include "kernels/launch.hpp"

namespace spmm::kernels {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::uint32_t kHeadWords = 4;  // i and j as 16-bit words: records of odd m are only 2-byte aligned

/// Largest value in a warp, on its first lane.
__device__ std::uint32_t warp_max(std::uint32_t value) {
  for (unsigned offset = 16; offset > 0; offset /= 2) value = max(value, __shfl_down_sync(0xFFFFFFFFu, value, offset));
  return value;
}

// Grid: one thread per 16-bit word of the raw chunk.
// Work: word o of record r; words 0-3 are {i, j}, the others are elements: reads and writes are both contiguous.
// Memory: the first word's thread reads the other three of the head again (same sector). One atomic per warp for the
//         largest element, and only where it would raise it.
__global__ void parse_records(const std::uint16_t* raw, std::uint64_t first, std::uint64_t num_words,
                              std::uint32_t elements, std::uint32_t nb, unsigned key_bits, std::uint64_t* keys,
                              std::uint16_t* values, unsigned long long* first_bad, std::uint32_t* max_element) {
  const std::uint64_t word = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::uint32_t record_words = kHeadWords + elements;
  const std::uint64_t record = word / record_words;
  const auto o = static_cast<std::uint32_t>(word % record_words);
  std::uint32_t element = 0;
  if (word < num_words && o >= kHeadWords) {
    element = raw[word];
    values[(first + record) * elements + (o - kHeadWords)] = static_cast<std::uint16_t>(element);
  }
  const std::uint32_t largest = warp_max(element);
  if (threadIdx.x % 32 == 0 && largest > *max_element) atomicMax(max_element, largest);  // rare after the first chunk
  if (word >= num_words || o != 0) return;
  const std::uint32_t i = raw[word] | std::uint32_t{raw[word + 1]} << 16;
  const std::uint32_t j = raw[word + 2] | std::uint32_t{raw[word + 3]} << 16;
  if (i >= nb || j >= nb) {
    atomicMin(first_bad, static_cast<unsigned long long>(first + record));  // lowest record wins; rare
  }
  keys[first + record] = std::uint64_t{i} << key_bits | j;
}

}  // namespace

void launch_parse_records(const std::byte* raw, std::uint64_t first, std::uint64_t count, std::uint32_t m,
                          std::uint32_t nb, unsigned key_bits, std::uint64_t* keys, std::uint16_t* values,
                          unsigned long long* first_bad, std::uint32_t* max_element, cudaStream_t stream) {
  if (count == 0) return;
  const std::uint32_t elements = m * m;
  const std::uint64_t num_words = count * (kHeadWords + elements);
  const auto grid = static_cast<unsigned>((num_words + kThreads - 1) / kThreads);
  parse_records<<<grid, kThreads, 0, stream>>>(reinterpret_cast<const std::uint16_t*>(raw), first, num_words, elements,
                                               nb, key_bits, keys, values, first_bad, max_element);
  check_launch("parse_records");
}

}  // namespace spmm::kernels
