// Kernels for NEON with products of matrices: ummla makes 4 sums of eight products of bytes.
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
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm")

#include "cpu/simd/c_block_driver.hpp"
#include "cpu/simd/i8mm/patch.hpp"
#include "cpu/simd/neon/digits.hpp"
#include "cpu/simd/neon/row_sums.hpp"
#include "cpu/simd/neon/strips.hpp"

namespace spmm::cpu {

MultiplyCBlocks i8mm_kernel(const PackedShape& shape, const Arithmetic& arithmetic) {
  return pick_digit_kernel(shape, arithmetic);
}
AccumulatorKernel i8mm_accumulator(const PackedShape& shape) {
  return pick_accumulator(Isa::neon_i8mm, shape.m);
}

}  // namespace spmm::cpu

#pragma GCC pop_options

namespace spmm::cpu {

bool i8mm_available() {
  return neon_available() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
}

}  // namespace spmm::cpu

#else  // another machine, or clang, whose intrinsics want the whole file compiled for the instructions: never available

namespace spmm::cpu {

bool i8mm_available() {
  return false;
}
MultiplyCBlocks i8mm_kernel(const PackedShape&, const Arithmetic&) {
  return nullptr;
}
AccumulatorKernel i8mm_accumulator(const PackedShape&) {
  return {};
}

}  // namespace spmm::cpu

#endif
