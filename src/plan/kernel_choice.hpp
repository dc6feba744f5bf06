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
  std::uint64_t num_pairs = 0;
  std::uint64_t num_rows = 0;     ///< block rows of A that hold blocks
  std::uint64_t num_tiles = 0;    ///< result blocks at most: sum over rows of min(pairs, nb)
  std::uint32_t max_element = 0;  ///< of both operands
  bool has_dense_tensor = false;  ///< the device can run the dense tensor-core kernel
  std::uint64_t free_bytes = 0;   ///< device memory left within the limit, panel buffers taken off
  std::uint64_t max_tiles = 0;    ///< tiles of a panel
};

/// A kernel that could run, and how long it would take.
struct Candidate {
  std::string kernel;
  double predicted_ms = 0;
};

/// Candidates, fastest first; never empty.
std::vector<Candidate> rank_kernels(const ProductStatistics& statistics);

/// "rows 12.3 ms, dense-tensor 150 ms".
std::string candidates_text(const std::vector<Candidate>& candidates);

/// Byte planes that elements need: 1 below 256, else 2.
constexpr std::uint32_t num_byte_planes(std::uint32_t max_element) {
  return max_element < 256 ? 1 : 2;
}

/// Bytes of one plane row of nb * m elements.
constexpr std::uint64_t plane_stride_bytes(std::uint32_t nb, std::uint32_t m) {
  return (std::uint64_t{nb} * m + 127) / 128 * 128;
}

/// Bytes of the planes of num_lines block rows (A) or columns (B).
constexpr std::uint64_t plane_bytes(std::uint32_t nb, std::uint32_t num_lines, std::uint32_t m,
                                    std::uint32_t num_planes) {
  const std::uint64_t rows = std::uint64_t{num_lines} * m;
  return (num_planes == 2 ? (rows + 7) / 8 * 16 : rows) * plane_stride_bytes(nb, m);
}

}  // namespace spmm::plan
