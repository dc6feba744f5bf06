// The kernels for diagonals on any machine, and which one to take.
#include "cpu/simd/diagonal_kernel.hpp"

#include <cstring>

#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

template <bool kSaturates>
class RowSums {
 public:
  void add(const std::uint16_t* a, const std::uint16_t* b) {
    for (std::uint32_t r = 0; r < kDiagonalRows; ++r) {
      const std::uint32_t product = std::uint32_t{a[r]} * b[r];
      sums_[r] += product;
      if (kSaturates && sums_[r] < product) sums_[r] = 0xFFFF'FFFFu;
    }
  }
  void rows(std::uint32_t part, Words& out) const { out = reinterpret_cast<const Words*>(sums_)[part]; }

 private:
  alignas(32) std::uint32_t sums_[kDiagonalRows] = {};
};

std::byte* write_row(std::uint32_t row, const std::uint32_t* offsets, const std::uint32_t* sums, std::uint32_t num_sums,
                     std::byte* out) {
  for (std::uint32_t s = 0; s < num_sums; ++s) {
    if (sums[s] == 0) continue;
    const std::uint32_t record[3] = {row, row + offsets[s], sums[s]};
    std::memcpy(out, record, sizeof record);
    out += sizeof record;
  }
  return out;
}

}  // namespace
}  // namespace spmm::cpu

#include "cpu/simd/diagonal_sums.hpp"

namespace spmm::cpu {

DiagonalKernel portable_diagonal_kernel() {
  return kernel_of_diagonals();
}

DiagonalKernel choose_diagonal_kernel(Isa isa) {
  switch (isa) {
    case Isa::avx512_vnni:
      return avx512_diagonal_kernel();
    case Isa::avx2:
      return avx2_diagonal_kernel();
    default:
      break;
  }
  return portable_diagonal_kernel();
}

}  // namespace spmm::cpu
