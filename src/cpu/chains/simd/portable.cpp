// Chains for any machine; fma by the library where the machine lacks it.
#include "cpu/chains/chains.hpp"

namespace spmm::cpu {
namespace {
constexpr std::uint32_t kVectorBytes = 16;
}
}  // namespace spmm::cpu

#include "cpu/chains/simd/range.hpp"

namespace spmm::cpu {

#define SPMM_RANGES(T, name)                         \
  template <>                                        \
  MultiplyRange<T> portable_range(std::uint32_t m) { \
    return range_for<T>(m);                          \
  }
SPMM_CHAIN_TYPES(SPMM_RANGES)

}  // namespace spmm::cpu
