// Lower bounds that prove blocks of C saturated everywhere: the task, which the host or a device carries out.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <span>

#include "base/run/run.hpp"
#include "spmm/saturate.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Blocks of C that claim to be saturated everywhere.
struct BoundTask {
  const Source& a;
  const Source& b;
  std::span<const std::uint32_t> rows;  ///< block rows of C, ascending
  std::uint32_t largest_a = 0;          ///< elements of the operands are at most these
  std::uint32_t largest_b = 0;
  /// [rows, words_per_row]: bit j % 32 of word j / 32 = block column j; cleared where the bound does not prove it.
  std::span<std::uint32_t> claims;

  [[nodiscard]] std::uint32_t m() const { return a.header().m; }
  [[nodiscard]] static std::uint64_t words_per_row(std::uint32_t blocks_per_side) {
    return (std::uint64_t{blocks_per_side} + 31) / 32;
  }
};

/// Proves what it can: where a bit of a claim stays, the sums of all elements of the block reach kMaxVal. False where
/// it cannot serve (no memory); bits that it cleared until then stay cleared, which is never wrong.
/// Errors: Interrupted, what the sources throw.
using BoundProver = std::function<bool(const BoundTask& task, const Run& run)>;

/// High parts of elements, x >> shift, and from where on the sum of their products proves saturation:
/// (sum << (shift_a + shift_b)) >= kMaxVal. Sums start at 0, those of elements that nothing is wanted of at kDone; they
/// are cut to kDone after every kMaxTerms terms, so that 32 bits never overflow.
struct BoundScale {
  static constexpr std::uint32_t kDone = 1u << 31;
  static constexpr std::uint32_t kMaxTerms = 32'768;  // 255 * 255 * 32,768 < 2^31

  std::uint32_t shift_a = 0;
  std::uint32_t shift_b = 0;
  std::uint32_t limit = kDone;  ///< at most kDone

  /// Values: high parts of A have bits_a bits, those of B bits_b; 8 at most.
  static constexpr BoundScale of(std::uint32_t largest_a, std::uint32_t largest_b, std::uint32_t bits_a,
                                 std::uint32_t bits_b) {
    const auto shift_of = [](std::uint32_t largest, std::uint32_t bits) {
      const auto width = static_cast<std::uint32_t>(std::bit_width(largest));
      return width > bits ? width - bits : 0;
    };
    BoundScale scale{.shift_a = shift_of(largest_a, bits_a), .shift_b = shift_of(largest_b, bits_b)};
    if (scale.shift_a + scale.shift_b == 0) scale.shift_a = 1;  // else the limit is beyond kDone
    const std::uint64_t unit = std::uint64_t{1} << (scale.shift_a + scale.shift_b);
    scale.limit = static_cast<std::uint32_t>((kMaxVal + unit - 1) / unit);
    return scale;
  }
};

}  // namespace spmm
