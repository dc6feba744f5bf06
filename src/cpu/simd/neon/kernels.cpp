// Kernels for NEON with dot products: udot makes 4 sums of four products of bytes.
#include "cpu/simd/kernels.hpp"

#include "cpu/simd/accumulator_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "plan/models/host_models.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

#if defined(__aarch64__) && !defined(__clang__)
#include <arm_neon.h>
#include <sys/auxv.h>

#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")

#include "cpu/simd/c_block_driver.hpp"
#include "cpu/simd/neon/digits.hpp"
#include "cpu/simd/neon/patch.hpp"
#include "cpu/simd/neon/row_sums.hpp"
#include "cpu/simd/neon/strips.hpp"

namespace spmm::cpu {

MultiplyCBlocks neon_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  return pick_digit_kernel(shape, arithmetic);
}
AccumulatorKernel neon_accumulator(const PackedShape& shape) {
  return pick_accumulator(Isa::neon_dotprod, shape.m);
}

}  // namespace spmm::cpu

#pragma GCC pop_options

namespace spmm::cpu {

bool neon_available() {
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

}  // namespace spmm::cpu

#else  // another machine, or clang, whose intrinsics want the whole file compiled for the instructions: never available

namespace spmm::cpu {

bool neon_available() {
  return false;
}
MultiplyCBlocks neon_kernel(const PackedShape&, const Arithmetic&) {
  return nullptr;
}
AccumulatorKernel neon_accumulator(const PackedShape&) {
  return {};
}

}  // namespace spmm::cpu

#endif
