// Blocks of an operand -> dense byte planes for the tensor-core kernel.
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/launch.hpp"

namespace spmm::kernels {
namespace {

// Grid: one CTA per line.
// Work: one thread per block and plane row of it: m elements that are contiguous in the block and in the plane.
//       Neighbouring threads take neighbouring blocks, which of A write neighbouring bytes of one plane row.
// Memory: m bytes per write; the parts of a sector meet in L2.
__global__ void expand_planes(LinesView index, const std::uint16_t* values, std::uint32_t first_line, std::uint32_t m,
                              bool along_line, BytePlanes planes) {
  const std::uint32_t slot = first_line + blockIdx.x;
  const std::uint32_t begin = index.offsets[slot];
  const std::uint32_t count = index.offsets[slot + 1] - begin;
  for (std::uint32_t x = threadIdx.x; x < count * m; x += blockDim.x) {
    const std::uint32_t p = begin + x % count;
    const std::uint32_t r = x / count;
    const std::uint64_t inner = index.inner[p];
    const std::uint64_t row = (along_line ? blockIdx.x : inner) * m + r;
    const std::uint64_t byte = (along_line ? inner : index.lines[slot]) * m;
    std::uint8_t* const high = planes.data + plane_row(row, 0, planes.num_planes) * planes.stride_bytes + byte;
    std::uint8_t* const low = planes.data + plane_row(row, 1, planes.num_planes) * planes.stride_bytes + byte;
    const std::uint16_t* const from = values + (std::uint64_t{p} * m + r) * m;
    if (m % 4 == 0) {
      for (std::uint32_t k = 0; k < m; k += 4) {
        const uint2 four = *reinterpret_cast<const uint2*>(from + k);
        *reinterpret_cast<std::uint32_t*>(low + k) = __byte_perm(four.x, four.y, 0x6420);
        if (planes.num_planes == 2) {
          *reinterpret_cast<std::uint32_t*>(high + k) = __byte_perm(four.x, four.y, 0x7531);
        }
      }
    } else {
      for (std::uint32_t k = 0; k < m; ++k) {
        low[k] = static_cast<std::uint8_t>(from[k]);
        if (planes.num_planes == 2) high[k] = static_cast<std::uint8_t>(from[k] >> 8);
      }
    }
  }
}

}  // namespace

void launch_expand_planes(const OperandView& operand, std::uint32_t first_line, std::uint32_t num_lines,
                          std::uint32_t m, bool along_line, const BytePlanes& planes, cudaStream_t stream) {
  check(cudaMemsetAsync(planes.data, 0, planes.num_rows * planes.stride_bytes, stream), "clear planes");
  if (num_lines == 0) return;
  expand_planes<<<num_lines, kItemThreads, 0, stream>>>(operand.index, operand.values, first_line, m, along_line,
                                                        planes);
  check_launch("expand_planes");
}

}  // namespace spmm::kernels
