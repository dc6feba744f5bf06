// Chains for any machine; fma by the library where the machine lacks it.
#include "cpu/chains/chains.hpp"
#define SPMM_VECTOR_BYTES 16

#include "cpu/chains/simd/range.hpp"

namespace spmm::cpu {

#define SPMM_RANGES(T, name)                         \
  template <>                                        \
  MultiplyRange<T> portable_range(std::uint32_t m) { \
    return range_for<T>(m);                          \
  }
SPMM_ELEMENT_TYPES(SPMM_RANGES)

}  // namespace spmm::cpu
