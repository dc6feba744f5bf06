// Memory that a product leaves to what stands beside it: samples to verify, a result that stays in memory.
#pragma once

#include <cstdint>

#include "plan/statistics.hpp"
#include "spmm/options.hpp"
#include "spmm/stream.hpp"
#include "verify/sample_verifier.hpp"

namespace spmm {

/// How a product with these options is verified, and the memory that is left to it beside the samples.
VerifySettings verify_beside(const ProductOptions& product, std::uint32_t m, plan::Limits& limits);

/// Leaves room for a result that stays in memory: as much as is expected of the headers, at most three quarters of the
/// limit. More than that it takes only as far as the product leaves memory free.
void leave_room_for_result(const Source& a, const Source& b, const Sink& sink, plan::Limits& limits);

}  // namespace spmm
