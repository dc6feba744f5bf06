// What an output is checked for before and after the work.
#pragma once

#include <cstdint>
#include <string>

#include "spmm/options.hpp"
#include "spmm/report.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// Bytes of these block rows of the result, for evenly spread blocks.
std::uint64_t expected_result_bytes(const MatrixHeader& a, const MatrixHeader& b, RowRange rows);

/// Whether a finished result may become visible. Values: out = how messages call it. Errors: SaturationError if
/// elements saturated and the options do not allow that; says where the first one is if that is found soon.
void check_saturation(const ProductOptions& options, const Report& report, Sink& sink, const std::string& out);

}  // namespace spmm
