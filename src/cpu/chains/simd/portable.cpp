// Chains for any machine; fma by the library where the machine lacks it.
#include "cpu/chains/chains.hpp"

namespace spmm::cpu {
namespace {
constexpr std::uint32_t kVectorBytes = 16;
}
}  // namespace spmm::cpu

#include "cpu/chains/simd/rows.hpp"

namespace spmm::cpu {

#define SPMM_ROWS(T, name)                         \
  template <>                                      \
  MultiplyRows<T> portable_rows(std::uint32_t m) { \
    return rows_for<T>(m);                         \
  }
SPMM_CHAIN_TYPES(SPMM_ROWS)

}  // namespace spmm::cpu
