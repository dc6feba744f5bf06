// CRC-32 by tables and by carry-less products, and of joined pieces.
#include "io/formats/crc32.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace spmm::io {
namespace {

constexpr std::uint32_t kPolynomial = 0xEDB88320u;  // reflected
constexpr std::uint32_t kOne = 1u << 31;            // x^0

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

/// [t][b] = remainder of byte b followed by t zero bytes.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t rest = b;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = rest;
  }
  for (std::size_t t = 1; t < tables.size(); ++t) {
    for (std::size_t b = 0; b < 256; ++b) {
      tables[t][b] = tables[t - 1][b] >> 8 ^ tables[0][tables[t - 1][b] & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();
static_assert(std::endian::native == std::endian::little);

/// Values: state = inverted checksum.
std::uint32_t add_bytes(std::uint32_t state, const std::byte* data, std::size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    word ^= state;
    state = 0;
    for (std::size_t x = 0; x < 8; ++x) state ^= kTables[7 - x][word >> 8 * x & 0xFF];
  }
  for (; size > 0; ++data, --size)
    state = state >> 8 ^ kTables[0][(state ^ std::to_integer<std::uint32_t>(*data)) & 0xFF];
  return state;
}

/// x^power, which is at least 32, as the instruction for carry-less products wants it: 33 bits, reflected.
constexpr std::uint64_t folding_factor(unsigned power) {
  std::uint32_t rest = kOne;
  for (unsigned x = 0; x < power; ++x) rest = rest >> 1 ^ ((rest & 1) != 0 ? kPolynomial : 0);
  return std::uint64_t{rest} << 1;
}

/// What the halves of a lane are multiplied by as it moves over so many bits.
struct FoldingFactors {
  explicit constexpr FoldingFactors(unsigned bits)
      : low(static_cast<long long>(folding_factor(bits + 32))),
        high(static_cast<long long>(folding_factor(bits - 32))) {}
  long long low;
  long long high;
};

constexpr FoldingFactors kByOne(128);
constexpr FoldingFactors kByFour(512);
constexpr FoldingFactors kBySixteen(2048);
constexpr auto kByHalf = static_cast<long long>(folding_factor(64));

#if defined(__x86_64__)
constexpr std::size_t kFoldBytes = 64;
constexpr std::size_t kWideBytes = 256;

/// A lane as it moves over bytes.
__attribute__((target("pclmul,sse4.1"))) inline __m128i fold_lane(__m128i lane, __m128i factors) {
  return _mm_xor_si128(_mm_clmulepi64_si128(lane, factors, 0x00), _mm_clmulepi64_si128(lane, factors, 0x11));
}

/// Four lanes of 16 bytes and the bytes behind them -> the inverted checksum. Values: size = a multiple of 16.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t reduce(const __m128i* lanes, const std::byte* data,
                                                              std::size_t size) {
  const __m128i by_one = _mm_set_epi64x(kByOne.high, kByOne.low);
  const __m128i by_half = _mm_set_epi64x(0, kByHalf);
  const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);  // the polynomial's quotient, and itself
  const __m128i low_words = _mm_setr_epi32(~0, 0, ~0, 0);
  __m128i sum = lanes[0];
  for (int lane = 1; lane < 4; ++lane) sum = _mm_xor_si128(fold_lane(sum, by_one), lanes[lane]);
  for (; size >= 16; data += 16, size -= 16) {
    sum = _mm_xor_si128(fold_lane(sum, by_one), _mm_loadu_si128(reinterpret_cast<const __m128i*>(data)));
  }
  sum = _mm_xor_si128(_mm_srli_si128(sum, 8), _mm_clmulepi64_si128(sum, by_one, 0x10));  // 128 -> 64 bits
  sum = _mm_xor_si128(_mm_srli_si128(sum, 4), _mm_clmulepi64_si128(_mm_and_si128(sum, low_words), by_half, 0x00));
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(sum, low_words), barrett, 0x10);  // 64 -> 32 bits
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), barrett, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(sum, quotient), 1));
}

/// Folds four lanes of 16 bytes by carry-less products. Values: size >= kFoldBytes, a multiple of 16.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t fold_bytes(std::uint32_t state, const std::byte* data,
                                                                  std::size_t size) {
  const __m128i by_four = _mm_set_epi64x(kByFour.high, kByFour.low);
  __m128i x[4];
  for (int lane = 0; lane < 4; ++lane) x[lane] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + lane);
  x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128(static_cast<int>(state)));
  for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
    for (int lane = 0; lane < 4; ++lane) {
      const __m128i next = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + lane);
      x[lane] = _mm_xor_si128(fold_lane(x[lane], by_four), next);
    }
  }
  return reduce(x, data, size);
}

#define SPMM_WIDE_TARGET __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.1")))

/// fold_lane() of four lanes, and the next four added.
SPMM_WIDE_TARGET inline __m512i fold_lanes(__m512i lanes, __m512i factors, __m512i next) {
  constexpr int kXor = 0x96;  // of three
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(lanes, factors, 0x00),
                                   _mm512_clmulepi64_epi128(lanes, factors, 0x11), next, kXor);
}

/// The same with sixteen lanes. Values: size >= kWideBytes, a multiple of 16.
SPMM_WIDE_TARGET std::uint32_t fold_wide(std::uint32_t state, const std::byte* data, std::size_t size) {
  const __m512i by_sixteen = _mm512_set4_epi64(kBySixteen.high, kBySixteen.low, kBySixteen.high, kBySixteen.low);
  const __m512i by_four = _mm512_set4_epi64(kByFour.high, kByFour.low, kByFour.high, kByFour.low);
  __m512i x[4];
  for (std::size_t y = 0; y < 4; ++y) x[y] = _mm512_loadu_si512(data + 64 * y);
  x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
  for (data += 256, size -= 256; size >= 256; data += 256, size -= 256) {
    for (std::size_t y = 0; y < 4; ++y) x[y] = fold_lanes(x[y], by_sixteen, _mm512_loadu_si512(data + 64 * y));
  }
  __m512i sum = x[0];
  for (std::size_t y = 1; y < 4; ++y) sum = fold_lanes(sum, by_four, x[y]);
  for (; size >= 64; data += 64, size -= 64) sum = fold_lanes(sum, by_four, _mm512_loadu_si512(data));
  __m128i lanes[4];
  _mm512_storeu_si512(lanes, sum);
  return reduce(lanes, data, size);
}

using Fold = std::uint32_t (*)(std::uint32_t, const std::byte*, std::size_t);

/// The widest way that the CPU has for so many bytes; null: none.
Fold fold_for(std::size_t size) {
  const bool has_product = __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
  const bool has_wide_product = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
  if (has_product && has_wide_product && size >= kWideBytes) return fold_wide;
  return has_product && size >= kFoldBytes ? fold_bytes : nullptr;
}
#endif

/// Product of two polynomials modulo the one of the checksum.
std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = b >> 1 ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

}  // namespace

std::uint32_t crc32_portable(std::uint32_t crc, std::span<const std::byte> bytes) {
  return ~add_bytes(~crc, bytes.data(), bytes.size());
}

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (const Fold fold = fold_for(bytes.size())) {
    const std::size_t folded = bytes.size() / 16 * 16;
    const std::uint32_t state = fold(~crc, bytes.data(), folded);
    return ~add_bytes(state, bytes.data() + folded, bytes.size() - folded);
  }
#endif
  return crc32_portable(crc, bytes);
}

std::uint32_t combine_crc32(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  std::uint32_t shift = kOne;       // x^(8 * second_bytes)
  std::uint32_t power = kOne >> 8;  // x^8, x^16, x^32 ...
  for (; second_bytes != 0; second_bytes >>= 1, power = multiply(power, power)) {
    if ((second_bytes & 1) != 0) shift = multiply(shift, power);
  }
  return multiply(shift, first) ^ second;
}

}  // namespace spmm::io
