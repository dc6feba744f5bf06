// How long the CPU kernels would take, from statistics and measured rates. Pure functions; all return milliseconds of
// the multiply stage.
#pragma once

#include "plan/dense_panels.hpp"
#include "plan/registry.hpp"

namespace spmm::plan {

double row_merge_ms(const Statistics& s, const Limits& limits, unsigned num_threads, std::uint64_t buffer_bytes);
double dense_blas_ms(const Statistics& s, const Limits& limits, unsigned num_threads, std::uint64_t buffer_bytes);
double reference_ms(const Statistics& s, const Limits& limits, unsigned num_threads, std::uint64_t buffer_bytes);

/// How many times as fast as one thread this many are.
double parallel_speed(unsigned num_threads, const Limits& limits);

/// The product as the dense kernel sees it: rows and columns without blocks left out.
DenseExtent dense_extent(const Statistics& s);

}  // namespace spmm::plan
