// The random vector X of the equation C X = A (B X).
#pragma once

#include <sys/random.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "spmm/error.hpp"
#include "spmm/types.hpp"

namespace spmm {

// Arithmetic modulo p = 2^61 - 1, the field of the equations behind --verify full.

/// A Mersenne prime: 2^61 = 1 modulo p, so that a remainder is a mask, a shift and an addition.
inline constexpr std::uint64_t kPrime61 = (std::uint64_t{1} << 61) - 1;

/// x modulo p, for any x.
constexpr std::uint64_t reduce61(std::uint64_t x) {
  const std::uint64_t folded = (x & kPrime61) + (x >> 61);
  return folded >= kPrime61 ? folded - kPrime61 : folded;
}

/// x modulo p. Values: x < 2^125.
constexpr std::uint64_t reduce61(unsigned __int128 x) {
  return reduce61((static_cast<std::uint64_t>(x) & kPrime61) + static_cast<std::uint64_t>(x >> 61));
}

/// Values of all that follow: x, y < p, and so is the result.
constexpr std::uint64_t add61(std::uint64_t x, std::uint64_t y) {
  const std::uint64_t sum = x + y;
  return sum >= kPrime61 ? sum - kPrime61 : sum;
}

constexpr std::uint64_t subtract61(std::uint64_t x, std::uint64_t y) {
  return x >= y ? x - y : x + kPrime61 - y;
}

constexpr std::uint64_t multiply61(std::uint64_t x, std::uint64_t y) {
  return reduce61(static_cast<unsigned __int128>(x) * y);
}

/// X[j m + c] = high[j / 2^b] low[j mod 2^b] inner[c], all three uniform modulo p = 2^61 - 1 and independent.
///
/// A row d of differences, not all zero modulo p, passes if sum d[x] X[x] = 0. This sum is a polynomial in the entries
/// of the three tables, each X[x] another monomial of degree 3: it is not the zero polynomial, and the lemma of
/// Schwartz and Zippel gives a probability of at most 3 / p = 1.3e-18, for every n.
/// Memory: 1 MB at most, 16 sqrt(n / m) bytes in general.
class RandomVector {
 public:
  /// Values: key = 0 draws from the system's random numbers; any other one is expanded, which repeats X but proves
  /// nothing against those who know the key. Errors: IoError.
  RandomVector(std::uint64_t key, const MatrixHeader& header)
      : low_bits_(low_bits(header)), high_(high_size(header)), low_(std::size_t{1} << low_bits_), inner_(header.m) {
    const bool is_drawn_from_key = key != 0;
    std::array<std::uint64_t, 32> words{};  // 256 bytes: getrandom gives all of them or none
    std::size_t num_words = 0;
    const auto next_word = [&] {
      if (is_drawn_from_key) {  // splitmix64
        std::uint64_t z = key += 0x9E37'79B9'7F4A'7C15u;
        z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
        z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
        return z ^ (z >> 31);
      }
      while (num_words == 0) {
        if (::getrandom(words.data(), sizeof words, 0) == static_cast<ssize_t>(sizeof words)) {
          num_words = words.size();
        } else if (errno != EINTR) {
          throw IoError("getrandom", std::strerror(errno), "give a key of your own with ProductOptions::proof_key");
        }
      }
      return words[--num_words];
    };
    for (std::vector<std::uint64_t>* const table : {&high_, &low_, &inner_}) {
      for (std::uint64_t& entry : *table) {
        do {
          entry = next_word() >> 3;
        } while (entry == kPrime61);  // one word in 2^61: the rest is uniform
      }
    }
  }

  /// The m elements of block column j. Shapes: out [m].
  void block(std::uint32_t j, std::uint64_t* out) const {
    const std::uint64_t outer = multiply61(high_[j >> low_bits_], low_[j & (low_.size() - 1)]);
    for (std::size_t c = 0; c < inner_.size(); ++c) out[c] = multiply61(outer, inner_[c]);
  }

  /// Bytes of the tables.
  static std::uint64_t bytes(const MatrixHeader& header) {
    return (high_size(header) + (std::uint64_t{1} << low_bits(header)) + header.m) * sizeof(std::uint64_t);
  }

 private:
  /// log2 of the size of the table for the lower digits of block columns.
  static unsigned low_bits(const MatrixHeader& header) {
    return static_cast<unsigned>(std::bit_width(header.blocks_per_side()) + 1) / 2;
  }
  static std::uint64_t high_size(const MatrixHeader& header) {
    return (std::uint64_t{header.blocks_per_side()} >> low_bits(header)) + 1;
  }

  unsigned low_bits_;
  std::vector<std::uint64_t> high_;
  std::vector<std::uint64_t> low_;    // [2^low_bits]
  std::vector<std::uint64_t> inner_;  // [m]
};

}  // namespace spmm
