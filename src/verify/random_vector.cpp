// Tables of random numbers, of the system or of a key.
#include "verify/random_vector.hpp"

#include <sys/random.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "spmm/error.hpp"

namespace spmm {
namespace {

/// log2 of the size of the table for the lower digits of block columns.
unsigned low_bits(const MatrixHeader& header) {
  return static_cast<unsigned>(std::bit_width(header.blocks_per_side()) + 1) / 2;
}

std::uint64_t high_size(const MatrixHeader& header) {
  return (std::uint64_t{header.blocks_per_side()} >> low_bits(header)) + 1;
}

}  // namespace

RandomVector::RandomVector(std::uint64_t key, const MatrixHeader& header)
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

std::uint64_t RandomVector::bytes(const MatrixHeader& header) {
  return (high_size(header) + (std::uint64_t{1} << low_bits(header)) + header.m) * sizeof(std::uint64_t);
}

}  // namespace spmm
