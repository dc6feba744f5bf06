// The kernels for diagonals. Included once per kernel file, inside its region for an instruction set: everything here
// is internal to that file. The file defines before: RowSums<saturates>, the sums of kDiagonalRows rows on one diagonal
// of C.
#pragma once

namespace spmm::cpu {
namespace {

/// Eight rows of eight sums. Shapes: x [8] by sum; out by row, `stride` words from one to the next.
inline void store_transposed(const Words* x, std::uint32_t* out, std::size_t stride) {
  Words pairs[8];
  for (int t = 0; t < 8; t += 2) {
    pairs[t] = __builtin_shufflevector(x[t], x[t + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[t + 1] = __builtin_shufflevector(x[t], x[t + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int half = 0; half < 2; ++half) {
    const Words* const p = pairs + half;  // rows 0, 1, 4, 5, then 2, 3, 6, 7
    const Words low[2] = {__builtin_shufflevector(p[0], p[2], 0, 1, 8, 9, 4, 5, 12, 13),
                          __builtin_shufflevector(p[0], p[2], 2, 3, 10, 11, 6, 7, 14, 15)};
    const Words high[2] = {__builtin_shufflevector(p[4], p[6], 0, 1, 8, 9, 4, 5, 12, 13),
                           __builtin_shufflevector(p[4], p[6], 2, 3, 10, 11, 6, 7, 14, 15)};
    for (int r = 0; r < 2; ++r) {
      std::uint32_t* const to = out + static_cast<std::size_t>(2 * half + r) * stride;
      *reinterpret_cast<Words*>(to) = __builtin_shufflevector(low[r], high[r], 0, 1, 2, 3, 8, 9, 10, 11);
      *reinterpret_cast<Words*>(to + 4 * stride) = __builtin_shufflevector(low[r], high[r], 4, 5, 6, 7, 12, 13, 14, 15);
    }
  }
}

template <bool kSaturates>
void add_diagonals(const DiagonalRows& rows, std::uint32_t* sums) {
  constexpr std::uint32_t kTogether = 8;
  constexpr std::uint32_t kParts = kDiagonalRows / kTogether;
  const std::size_t stride = rows.num_sums;
  const DiagonalTerm* term = rows.terms;
  for (std::uint32_t first = 0; first < rows.num_sums; first += kTogether) {
    Words of_sums[kParts][kTogether];
    for (std::uint32_t s = 0; s < kTogether; ++s) {
      RowSums<kSaturates> sum;
      for (const DiagonalTerm* const end = rows.terms + rows.ends[first + s]; term != end; ++term) {
        sum.add(rows.a + term->a, rows.b + term->b);
      }
      for (std::uint32_t part = 0; part < kParts; ++part) sum.rows(part, of_sums[part][s]);
    }
    for (std::size_t part = 0; part < kParts; ++part) {
      store_transposed(of_sums[part], sums + part * kTogether * stride + first, stride);
    }
  }
}

inline DiagonalKernel kernel_of_diagonals() {
  return {.add = {add_diagonals<false>, add_diagonals<true>}, .write = write_row};
}

}  // namespace
}  // namespace spmm::cpu
