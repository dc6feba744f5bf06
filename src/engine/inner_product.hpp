// One product whose devices take parts of the inner dimension.
#pragma once

#include <optional>
#include <vector>

#include "base/run.hpp"
#include "plan/execution.hpp"
#include "plan/inner_parts.hpp"
#include "spmm/multiply.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Whether parts of the inner dimension are worth a look: operands large enough to be worth the sample, and one result
/// file.
bool may_divide_inner(const MatrixHeader& a, const MatrixHeader& b, const plan::Limits& limits);

/// Sampled indices of both operands: of all records of small operands, else of short runs of them all over the file.
/// Memory: 1 MB, and 32 KB a thread. Errors: what sources throw.
plan::InnerSample sample_inner(const Source& a, const Source& b, unsigned num_threads, Workers& workers);

/// What tests ask for: the variable SPMM_TEST_DIVISION (rows, inner). Memory limits hold all the same.
plan::DivisionWish division_wish();

/// Runs execution.inner_borders on all devices of the run, and adds the partial products up. Nothing, with the sink
/// untouched, where a partial product is larger than planned, or an operand is wrong: a product by rows takes its time
/// for it, or says what is wrong in the words of the file.
std::optional<ProductStats> multiply_by_inner(const Source& a, const Source& b, Sink& sink, plan::Execution& execution,
                                              const plan::Decide& decide, const Run& run);

}  // namespace spmm
