// Random numbers by counting: any number of a sequence is computed from its place, in integers only, so that a seed
// means the same bytes on every machine and for every number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace spmm::tools {

inline constexpr std::uint64_t kGolden = 0x9E37'79B9'7F4A'7C15u;

/// A bijection of 64 bits that scatters. Source: finalizer of splitmix64 (Steele, Lea, Flood; Vigna).
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBu;
  return x ^ (x >> 31);
}

/// Number `place` of the sequence that belongs to `key`.
constexpr std::uint64_t random_at(std::uint64_t key, std::uint64_t place) {
  return mix(key + (place + 1) * kGolden);
}

/// A pseudo-random permutation of 0 .. size - 1, computed value by value without a table: a Feistel network over the
/// next power of two, walked until the value is below size (at most twice on average).
/// Source: cycle walking, J. Black and P. Rogaway, Ciphers with Arbitrary Finite Domains (2002).
class Permutation {
 public:
  /// Values: size at least 1.
  Permutation(std::uint64_t size, std::uint64_t key) : size_(size) {
    const int bits = std::max(2, static_cast<int>(std::bit_width(size - 1)));
    low_bits_ = bits / 2;
    low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
    high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
    for (std::size_t r = 0; r < keys_.size(); ++r) keys_[r] = random_at(key, r);
  }

  /// Values: x below size; so is the result.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t x) const {
    do {
      x = scramble(x);
    } while (x >= size_);
    return x;
  }

 private:
  static constexpr std::size_t kRounds = 4;  // each changes both halves

  __extension__ using Wide = unsigned __int128;

  static std::uint64_t round_value(std::uint64_t half, std::uint64_t key) {
    const Wide product = Wide{half ^ key} * kGolden;
    return static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product);
  }

  [[nodiscard]] std::uint64_t scramble(std::uint64_t x) const {
    std::uint64_t high = x >> low_bits_;
    std::uint64_t low = x & low_mask_;
    for (std::size_t r = 0; r < 2 * kRounds; r += 2) {
      high ^= round_value(low, keys_[r]) & high_mask_;
      low ^= round_value(high, keys_[r + 1]) & low_mask_;
    }
    return high << low_bits_ | low;
  }

  std::uint64_t size_;
  int low_bits_ = 0;
  std::uint64_t low_mask_ = 0;
  std::uint64_t high_mask_ = 0;
  std::array<std::uint64_t, 2 * kRounds> keys_{};
};

}  // namespace spmm::tools
