// Chains with AVX2 and FMA.
#include "cpu/chains/chains.hpp"

#if defined(__x86_64__)
#define SPMM_ISA "avx2,fma"
#define SPMM_VECTOR_BYTES 32

#include "cpu/chains/simd/range.hpp"

namespace spmm::cpu {
namespace {

bool is_available() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

}  // namespace

#define SPMM_RANGES(T, name)                           \
  template <>                                          \
  MultiplyRange<T> avx2_range(std::uint32_t m) {       \
    return is_available() ? range_for<T>(m) : nullptr; \
  }
SPMM_ELEMENT_TYPES(SPMM_RANGES)

}  // namespace spmm::cpu
#endif
