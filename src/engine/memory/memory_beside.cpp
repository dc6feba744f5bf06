#include "engine/memory/memory_beside.hpp"

#include <algorithm>

namespace spmm {

VerifySettings verify_beside(const ProductOptions& product, std::uint32_t m, plan::Limits& limits) {
  const std::uint64_t limit_bytes = limits.host_bytes;
  const VerifySettings settings = verify_settings(product.verify_blocks, product.verify_seed, m, limit_bytes);
  if (limit_bytes != 0) limits.host_bytes -= std::min(limit_bytes - 1, settings.sample_bytes);
  return settings;
}

void leave_room_for_result(const Source& a, const Source& b, const Sink& sink, plan::Limits& limits) {
  if (!sink.keeps_records()) return;
  constexpr double kTolerance = 1.0625;  // what is expected is for evenly spread blocks
  const double expected = kTolerance * plan::expected_statistics(a.header(), b.header()).num_c_blocks *
                          static_cast<double>(output_record_bytes(a.header().m));
  const std::uint64_t most = limits.host_bytes - limits.host_bytes / 4;
  limits.host_bytes -= expected < static_cast<double>(most) ? static_cast<std::uint64_t>(expected) : most;
}

}  // namespace spmm
