// Which CUDA kernel multiplies, from exact statistics and measured rates. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spmm::plan {

/// What is known when the operands are sorted and their pairs are counted.
struct ProductStatistics {
  std::uint32_t m = 0;
  std::uint32_t nb = 0;
  std::uint64_t num_blocks = 0;  ///< of both operands
  std::uint64_t num_pairs = 0;
  std::uint64_t num_rows = 0;      ///< block rows of A that hold blocks
  std::uint64_t num_c_blocks = 0;  ///< result blocks at most: sum over rows of min(pairs, nb)
  std::uint32_t max_element = 0;   ///< of both operands
  bool has_dense_tensor = false;   ///< the device can run the dense tensor-core kernel
  std::uint64_t free_bytes = 0;    ///< device memory left within the limit beside the operands
  std::uint64_t max_c_blocks = 0;  ///< C blocks of a panel at most
};

/// A kernel that could run, and how long the device would take from parsing to packed records.
struct Candidate {
  std::string kernel;
  double predicted_ms = 0;
};

/// Candidates, fastest first; never empty.
std::vector<Candidate> rank_kernels(const ProductStatistics& statistics);

/// "rows 12.3 ms, dense-tensor 150 ms".
std::string candidates_text(const std::vector<Candidate>& candidates);

}  // namespace spmm::plan
