// Chains with AVX-512.
#include "cpu/chains/chains.hpp"

#if defined(__x86_64__)
#define SPMM_ISA "avx512f,avx512dq,avx512vl,avx2,fma"
#define SPMM_VECTOR_BYTES 64

#include "cpu/chains/simd/range.hpp"

namespace spmm::cpu {
namespace {

bool is_available() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

#define SPMM_RANGES(T, name)                           \
  template <>                                          \
  MultiplyRange<T> avx512_range(std::uint32_t m) {     \
    return is_available() ? range_for<T>(m) : nullptr; \
  }
SPMM_ELEMENT_TYPES(SPMM_RANGES)

}  // namespace spmm::cpu
#endif
