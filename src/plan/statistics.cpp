// Expected statistics from headers.
#include "plan/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace spmm::plan {

Statistics expected_statistics(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t num_rows) {
  Statistics s{.a = a, .b = b};
  const double nb = s.nb();
  if (nb == 0) return s;
  const std::uint32_t rows = num_rows == 0 ? s.nb() : std::min(num_rows, s.nb());
  const double places = rows * nb;  // of C blocks, and of blocks of A
  s.a_rows = std::min(a.num_blocks, rows);
  s.b_rows = std::min(b.num_blocks, s.nb());
  s.num_pairs = double(a.num_blocks) * double(b.num_blocks) / nb;
  // A C block exists unless all nb inner positions miss.
  const double hit = (double(a.num_blocks) / places) * (double(b.num_blocks) / (nb * nb));
  s.num_c_blocks = hit >= 1 ? places : places * -std::expm1(nb * std::log1p(-hit));
  return s;
}

Statistics expected_of_rows(MatrixHeader a, const MatrixHeader& b, RowRange rows) {
  const std::uint32_t nb = a.blocks_per_side();
  if (nb == 0 || rows.covers(nb)) return expected_statistics(a, b);
  const std::uint32_t num_rows = std::min(rows.end, nb) - std::min({rows.first, rows.end, nb});
  a.num_blocks = static_cast<std::uint32_t>(std::ceil(double(a.num_blocks) * num_rows / nb));
  return expected_statistics(a, b, num_rows);
}

}  // namespace spmm::plan
