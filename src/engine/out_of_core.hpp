// Products whose operands do not fit the memory limit: A in bands of block rows, B in bands of block columns.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/run.hpp"
#include "spmm/plan.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// In how many bands a product is computed; 1 x 1 = at once.
struct BandCounts {
  std::uint32_t a = 1;
  std::uint32_t b = 1;
};

/// Plans a product of these shapes while reserved_bytes of the host's limit are taken. Errors: OutOfMemory.
using PlanBand = std::function<Plan(const MatrixHeader& a, const MatrixHeader& b, std::uint64_t reserved_bytes)>;

/// Runs one planned product into a sink, without finish().
using RunBand = std::function<ProductStats(const Source& a, const Source& b, Sink& sink, const Plan& plan)>;

/// Plan of a product; where it does not fit at once, of its largest band if blocks are evenly spread, with
/// plan.a_bands and plan.b_bands set. Errors: OutOfMemory if no division fits.
Plan plan_with_bands(const MatrixHeader& a, const MatrixHeader& b, const PlanBand& plan_band);

/// Multiplies at once where that fits, else band by band; the records reach the sink in the same order either way.
/// `plan` is set to the plan of the largest band.
/// Memory: 4 bytes per record of both inputs; with several bands of B also the result of one band of A, at most half of
/// the host's limit (a band of A whose result is larger is divided further).
/// Errors: OutOfMemory if no division fits; FormatError; what run_band throws.
ProductStats multiply_with_bands(const Source& a, const Source& b, Sink& sink, const PlanBand& plan_band,
                                 const RunBand& run_band, const Run& run, Plan& plan);

}  // namespace spmm
