// The random matrix X of the equations behind --verify full: a function of a key, not an array.
#pragma once

#include <cstdint>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "verify/sums/field61.hpp"

namespace spmm {

/// A key that was not known before: from the system's random numbers. Errors: IoError.
std::uint64_t fresh_proof_key();

/// X[c, q], uniform below p as far as its two keyed rounds of mixing are.
class RandomColumns {
 public:
  explicit RandomColumns(std::uint64_t key)
      : first_(mix(key + 0x9E37'79B9'7F4A'7C15u)), second_(mix(key ^ 0xD1B5'4A32'D192'ED03u)) {}

  /// Values: c = a column of C, q = a column of X.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t c, std::uint32_t q) const {
    std::uint64_t word = mix(mix(c + first_) ^ (second_ + q * 0xA24B'AED4'963E'E407u));
    while ((word >> 3) == kPrime61) word = mix(word + second_);  // one draw of 2^61 is thrown away
    return word >> 3;
  }

  /// Shapes: out [count], for columns c, c + 1, ...
  void fill(std::uint64_t c, std::uint64_t count, std::uint32_t q, std::uint64_t* out) const {
    for (std::uint64_t x = 0; x < count; ++x) out[x] = (*this)(c + x, q);
  }

 private:
  /// The finalizer of splitmix64, a bijection.
  static constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
    z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
    return z ^ (z >> 31);
  }

  std::uint64_t first_;
  std::uint64_t second_;
};

/// Column q of X by block columns: a table if the limit allows it, else computed at each use.
class RandomVectors {
 public:
  /// Memory: 8 n bytes with a table. Errors: OutOfMemory, Interrupted.
  RandomVectors(const RandomColumns& columns, std::uint32_t q, std::uint64_t n, std::uint32_t m, bool is_table,
                const Run& run);

  /// The m elements of block column j; `place` [m] is filled if there is no table. Threads: any.
  [[nodiscard]] const std::uint64_t* at(std::uint32_t j, std::uint64_t* place) const {
    if (table_.size() != 0) return table_.data() + std::uint64_t{j} * m_;
    columns_.fill(std::uint64_t{j} * m_, m_, q_, place);
    return place;
  }

 private:
  RandomColumns columns_;
  std::uint32_t q_;
  std::uint32_t m_;
  AlignedArray<std::uint64_t> table_;  // [n] or none
};

}  // namespace spmm
