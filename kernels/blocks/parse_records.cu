// Raw file records -> sort keys and packed elements.
#include "kernels/blocks/launch.hpp"
#include "kernels/check.hpp"

namespace spmm::kernels {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWordsPerThread = 4;  // loads in flight per thread
constexpr unsigned kWordsPerCta = kThreads * kWordsPerThread;

/// Largest value in a warp, on its first lane.
__device__ std::uint32_t warp_max(std::uint32_t value) {
  for (unsigned offset = 16; offset > 0; offset /= 2) value = max(value, __shfl_down_sync(0xFFFFFFFFu, value, offset));
  return value;
}

/// Raises *max_element to the largest value of a CTA. One atomic per CTA, and only if it would raise it: those of
/// all warps that start together would wait for each other. Threads: all of the CTA.
__device__ void raise_max(std::uint32_t largest, std::uint32_t* max_element) {
  __shared__ std::uint32_t of_warp[kThreads / 32];
  largest = warp_max(largest);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
  __syncthreads();  // the largest of each warp is known
  if (threadIdx.x >= 32) return;
  largest = warp_max(threadIdx.x < kThreads / 32 ? of_warp[threadIdx.x] : 0);
  if (threadIdx.x == 0 && largest > *max_element) atomicMax(max_element, largest);  // rare after the first section
}

/// Where the records of one launch are parsed to.
struct Target {
  std::uint64_t first;  // number of the first record
  std::uint32_t m;
  bool transpose;
  std::uint32_t nb;
  unsigned key_bits;
  std::uint64_t* keys;
  std::uint16_t* values;
  unsigned long long* first_bad;

  __device__ void put_key(std::uint32_t record, std::uint32_t i, std::uint32_t j) const {
    const bool is_bad = i >= nb || j >= nb;
    if (is_bad) atomicMin(first_bad, static_cast<unsigned long long>(first + record));  // the lowest; bad files only
    // Sorting may have been put on the stream before anybody knows: a bad key lies within the matrix.
    keys[first + record] = is_bad ? 0 : std::uint64_t{i} << key_bits | j;
  }
  __device__ void put_element(std::uint32_t record, std::uint32_t e, std::uint16_t value) const {
    const std::uint32_t to = transpose ? e % m * m + e / m : e;
    values[(first + record) * (m * m) + to] = value;
  }
};

/// A word of a record whose 8-byte words hold the head or four elements. Returns the largest element.
__device__ inline std::uint32_t parse_word(const uint2* raw, std::uint32_t word, std::uint32_t m, const Target& to) {
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
                                           const Target& to) {
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

// Grid: one CTA per kWordsPerCta words of the raw records. Word: 8 bytes if m is even, else 2.
// Work: neighbouring threads read neighbouring words; elements are written contiguously, or, transposed, within the
//       128 bytes or so of their block.
// Memory: contiguous, or, transposed, by elements.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    parse_records(const Word* raw, std::uint32_t num_words, Target to, std::uint32_t* max_element) {
  const std::uint32_t first = blockIdx.x * kWordsPerCta + threadIdx.x;
  std::uint32_t largest = 0;
#pragma unroll
  for (std::uint32_t x = 0; x < kWordsPerThread; ++x) {
    const std::uint32_t word = first + x * kThreads;
    if (word < num_words) largest = max(largest, parse_word(raw, word, to.m, to));
  }
  raise_max(largest, max_element);
}

constexpr std::uint32_t kRecordsPerWarp = 8;  // loads in flight per lane

/// Transposes a block of 8 x 8 elements. Layout: a lane has elements 2 * (lane % 4) and the next one of row lane / 4.
/// Threads: one whole warp.
/// Source: PTX ISA, movmatrix.
__device__ inline std::uint32_t transpose_8(std::uint32_t two) {
  std::uint32_t out;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(two));
  return out;
}

/// Whether a block of 8 x 8 elements has a column of zeros. Layout: as transpose_8.
/// Threads: one whole warp, all of which get the answer for their own columns.
__device__ inline bool has_zero_column_8(std::uint32_t two) {
#pragma unroll
  for (std::uint32_t step = 4; step < 32; step *= 2) two |= __shfl_xor_sync(~0u, two, step);
  return (two & 0xFFFFu) == 0 || two >> 16 == 0;
}

// Grid: one warp per kRecordsPerWarp records of m = 8.
// Work: lane -> two elements of each block, transposed in registers by the whole warp; lane x also takes the head of
//       record x.
// Memory: a warp reads and writes a block as one piece.
template <bool Transpose>
__global__ void __launch_bounds__(kThreads)
    parse_records_8(const std::uint32_t* raw, std::uint32_t num_records, Target to, std::uint32_t* max_element,
                    std::uint32_t* has_zeros) {
  constexpr std::uint32_t kRecordWords = 34;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t begin = (blockIdx.x * (kThreads / 32) + threadIdx.x / 32) * kRecordsPerWarp;
  const std::uint32_t* const from = raw + std::uint64_t{begin} * kRecordWords;
  const std::uint32_t count = begin < num_records ? min(kRecordsPerWarp, num_records - begin) : 0;  // of the warp
  std::uint32_t two[kRecordsPerWarp];
#pragma unroll
  for (std::uint32_t u = 0; u < kRecordsPerWarp; ++u) two[u] = u < count ? from[u * kRecordWords + 2 + lane] : 0;
  if (lane < count) {
    const uint2 head = *reinterpret_cast<const uint2*>(from + lane * kRecordWords);
    to.put_key(begin + lane, head.x, head.y);
  }
  std::uint32_t* const values = reinterpret_cast<std::uint32_t*>(to.values) + (to.first + begin) * 32 + lane;
  std::uint32_t largest = 0;
  bool any_zeros = false;
#pragma unroll
  for (std::uint32_t u = 0; u < kRecordsPerWarp; ++u) {
    if (u >= count) break;
    largest = __vmaxu2(largest, two[u]);
    any_zeros |= Transpose ? !__any_sync(~0u, two[u] != 0) : has_zero_column_8(two[u]);
    values[u * 32] = Transpose ? transpose_8(two[u]) : two[u];
  }
  if (any_zeros) *has_zeros = 1;  // all threads that write store 1: no atomic is needed
  raise_max(max(largest & 0xFFFFu, largest >> 16), max_element);
}

// Grid: one thread per record of m = 4.
// Work: a block is transposed in registers.
// Memory: lines of the records are read by five loads in a row, from cache after the first; blocks are written by two
//         halves.
template <bool Transpose>
__global__ void __launch_bounds__(kThreads) parse_records_4(const uint2* raw, std::uint32_t num_records, Target to,
                                                            std::uint32_t* max_element, std::uint32_t* has_zeros) {
  const std::uint32_t record = blockIdx.x * kThreads + threadIdx.x;
  std::uint32_t largest = 0;
  if (record < num_records) {
    const uint2* const from = raw + std::uint64_t{record} * 5;
    const uint2 head = from[0];
    const uint2 rows[4] = {from[1], from[2], from[3], from[4]};
    to.put_key(record, head.x, head.y);
    uint4* const block = reinterpret_cast<uint4*>(to.values) + (to.first + record) * 2;
    if constexpr (Transpose) {
      constexpr std::uint32_t kLow = 0x5410, kHigh = 0x7632;  // elements of two words
      block[0] = uint4{__byte_perm(rows[0].x, rows[1].x, kLow), __byte_perm(rows[2].x, rows[3].x, kLow),
                       __byte_perm(rows[0].x, rows[1].x, kHigh), __byte_perm(rows[2].x, rows[3].x, kHigh)};
      block[1] = uint4{__byte_perm(rows[0].y, rows[1].y, kLow), __byte_perm(rows[2].y, rows[3].y, kLow),
                       __byte_perm(rows[0].y, rows[1].y, kHigh), __byte_perm(rows[2].y, rows[3].y, kHigh)};
    } else {
      block[0] = uint4{rows[0].x, rows[0].y, rows[1].x, rows[1].y};
      block[1] = uint4{rows[2].x, rows[2].y, rows[3].x, rows[3].y};
    }
    const uint2 any{rows[0].x | rows[1].x | rows[2].x | rows[3].x, rows[0].y | rows[1].y | rows[2].y | rows[3].y};
    const bool has_zero_column =
        (any.x & 0xFFFFu) == 0 || any.x >> 16 == 0 || (any.y & 0xFFFFu) == 0 || any.y >> 16 == 0;
    if (Transpose ? (any.x | any.y) == 0 : has_zero_column) *has_zeros = 1;  // as above
    const std::uint32_t two = __vmaxu2(__vmaxu2(__vmaxu2(rows[0].x, rows[0].y), __vmaxu2(rows[1].x, rows[1].y)),
                                       __vmaxu2(__vmaxu2(rows[2].x, rows[2].y), __vmaxu2(rows[3].x, rows[3].y)));
    largest = max(two & 0xFFFFu, two >> 16);
  }
  raise_max(largest, max_element);
}

void launch_4(const RawRecordsView& raw, const Target& to, const ParsedView& parsed, cudaStream_t stream) {
  const auto grid = static_cast<unsigned>((raw.count + kThreads - 1) / kThreads);
  const auto* const words = reinterpret_cast<const uint2*>(raw.data);
  const auto kernel = raw.transpose ? parse_records_4<true> : parse_records_4<false>;
  kernel<<<grid, kThreads, 0, stream>>>(words, static_cast<std::uint32_t>(raw.count), to, parsed.max_element,
                                        parsed.has_zeros);
  check_launch("parse_records_4");
}

void launch_8(const RawRecordsView& raw, const Target& to, const ParsedView& parsed, cudaStream_t stream) {
  constexpr std::uint32_t kPerCta = kThreads / 32 * kRecordsPerWarp;
  const auto grid = static_cast<unsigned>((raw.count + kPerCta - 1) / kPerCta);
  const auto* const words = reinterpret_cast<const std::uint32_t*>(raw.data);
  const auto kernel = raw.transpose ? parse_records_8<true> : parse_records_8<false>;
  kernel<<<grid, kThreads, 0, stream>>>(words, static_cast<std::uint32_t>(raw.count), to, parsed.max_element,
                                        parsed.has_zeros);
  check_launch("parse_records_8");
}

template <class Word>
void launch(const RawRecordsView& raw, const Target& to, std::uint32_t* max_element, cudaStream_t stream) {
  const auto num_words = static_cast<std::uint32_t>(raw.count * (8 + std::uint64_t{2} * raw.m * raw.m) / sizeof(Word));
  const unsigned grid = (num_words - 1) / kWordsPerCta + 1;
  parse_records<Word>
      <<<grid, kThreads, 0, stream>>>(reinterpret_cast<const Word*>(raw.data), num_words, to, max_element);
  check_launch("parse_records");
}

}  // namespace

bool parsing_finds_zeros(std::uint32_t m) {
  return m == 4 || m == 8;
}

void launch_parse_records(const RawRecordsView& raw, const ParsedView& parsed, cudaStream_t stream) {
  if (raw.count == 0) return;
  const Target to{.first = raw.first,
                  .m = raw.m,
                  .transpose = raw.transpose,
                  .nb = raw.nb,
                  .key_bits = raw.key_bits,
                  .keys = parsed.keys,
                  .values = parsed.values,
                  .first_bad = parsed.first_bad};
  if (raw.m == 4) return launch_4(raw, to, parsed, stream);
  if (raw.m == 8) return launch_8(raw, to, parsed, stream);
  if (raw.m % 2 == 0) {
    launch<uint2>(raw, to, parsed.max_element, stream);
  } else {
    launch<std::uint16_t>(raw, to, parsed.max_element, stream);
  }
}

}  // namespace spmm::kernels
