// A pretended machine and evenly spread operands for tests of decisions.
#pragma once

#include <cstdint>

#include "plan/decide.hpp"
#include "plan/device_bytes.hpp"

namespace spmm::test {

inline plan::Statistics evenly_spread(std::uint32_t n, std::uint32_t m, double blocks,
                                      std::uint32_t max_element = 65'535) {
  const MatrixHeader header{.n = n, .m = m, .num_blocks = static_cast<std::uint32_t>(blocks)};
  plan::Statistics s = plan::expected_statistics(header, header);
  s.max_element = max_element;
  return s;
}

/// A large Hopper device and eight cores; products on the device.
inline plan::Limits large_machine() {
  plan::Limits limits;
  limits.backend = Backend::cuda;
  limits.num_threads = 8;
  limits.num_cores = 8;
  limits.host_bytes = std::uint64_t{64} << 30;
  limits.device = plan::DeviceLimits{.bytes = std::uint64_t{100} << 30, .name = "large", .has_dense_tensor = true};
  limits.isa = plan::Isa::avx512_vnni;
  limits.has_blas = true;
  return limits;
}

}  // namespace spmm::test
