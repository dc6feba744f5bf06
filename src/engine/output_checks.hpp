// Checks of an output before any work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "io/files/paths.hpp"
#include "plan/inputs/statistics.hpp"
#include "spmm/options.hpp"
#include "spmm/report.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// A folder of parts is replaced as a whole. Errors: UsageError.
void check_output_holds_no_input(const std::filesystem::path& input, const std::filesystem::path& out);

/// Bytes of these block rows of the result as one file, for evenly spread blocks.
std::uint64_t expected_result_bytes(const MatrixHeader& a, const MatrixHeader& b, RowRange rows);

/// How many parts a product with these options has; 0 = one file. Errors: UsageError.
std::uint32_t wanted_parts(const plan::Statistics& expected, const ProductOptions& options);

/// The same of a product by several processes, each on so many cores, each of which writes its parts; left open: as
/// many of each as pay, at least one. 0 = one file. Errors: UsageError.
std::uint32_t parts_of_ranks(const plan::Statistics& expected, const ProductOptions& options, std::uint32_t num_ranks,
                             unsigned num_cores);

/// Whether a finished result may become visible. Values: out = how messages call it. Errors: SaturationError if
/// elements saturated and the options do not allow that; says where the first one is if that is found soon.
void check_saturation(const ProductOptions& options, const Report& report, Sink& sink, const std::string& out);

}  // namespace spmm
