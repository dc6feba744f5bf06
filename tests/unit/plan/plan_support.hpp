// A pretended machine and evenly spread operands for tests of decisions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/choice.hpp"
#include "plan/need.hpp"

namespace spmm::test {

inline plan::Counts evenly_spread(std::uint32_t n, std::uint32_t m, double blocks, std::uint32_t max_element = 65'535) {
  const MatrixHeader header{.n = n, .m = m, .num_blocks = static_cast<std::uint32_t>(blocks)};
  plan::Counts s = plan::expected_counts(header, header);
  s.max_element = max_element;
  return s;
}

/// Exact statistics with evenly filled rows.
inline plan::Counts counted(const plan::Counts& expected, std::uint32_t rows_per_run = 1) {
  plan::Counts s = expected;
  s.exact = true;
  s.row_pairs = {.rows_per_run = rows_per_run, .num_rows = static_cast<std::uint32_t>(s.a_rows)};
  const auto per_row = static_cast<std::uint64_t>(s.num_pairs / static_cast<double>(s.a_rows));
  for (std::uint64_t row = 0; row < s.a_rows; row += rows_per_run) {
    s.row_pairs.offsets.push_back(s.row_pairs.offsets.back() +
                                  per_row * std::min<std::uint64_t>(rows_per_run, s.a_rows - row));
  }
  s.row_pairs.max_row_pairs = per_row;
  return s;
}

/// A large Hopper device and eight cores; products on the device.
inline plan::Limits large_machine() {
  plan::Limits limits;
  limits.backend = Backend::cuda;
  limits.num_threads = 8;
  limits.num_cores = 8;
  limits.host_bytes = std::uint64_t{64} << 30;
  limits.gpus = {{.name = "large", .bytes = std::uint64_t{100} << 30, .has_dense_tensor = true}};
  limits.isa = plan::Isa::avx512_vnni;
  return limits;
}

}  // namespace spmm::test
