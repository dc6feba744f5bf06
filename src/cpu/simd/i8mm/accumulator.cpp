// Sums of rows of C for NEON with products of matrices, sides 4 to 8.
#include "cpu/simd/accumulator_kernel.hpp"

#if defined(__aarch64__) && !defined(__clang__)
#include <arm_neon.h>

#include <cstring>

#include "plan/models/host_models.hpp"
#include "spmm/types.hpp"

#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm")

#include "cpu/simd/i8mm/patch.hpp"
#include "cpu/simd/neon/digits.hpp"
#include "cpu/simd/neon/row_sums.hpp"

namespace spmm::cpu {

AccumulatorKernel i8mm_accumulator(const PackedShape& shape) {
  return pick_accumulator(Isa::neon_i8mm, shape.m);
}

}  // namespace spmm::cpu

#pragma GCC pop_options

#else  // another machine: never asked for

namespace spmm::cpu {

AccumulatorKernel i8mm_accumulator(const PackedShape&) {
  return {};
}

}  // namespace spmm::cpu

#endif
