// How long the CPU kernels would take, from statistics and measured rates. Pure functions; all return milliseconds of
// the multiply stage.
#pragma once

#include <cstdint>

#include "plan/dense_panels.hpp"
#include "plan/registry.hpp"

namespace spmm::plan {

/// Output buffers of row-merge up to this size are still in the second-level cache when they are used again; with
/// larger ones every record is fetched from memory before it is overwritten. User time with 8, 2, 1 and 0.5 MB, two
/// threads: P3 280, 186, 189, 185 ms; P5 841, 719, 641, 678.
inline constexpr std::uint64_t kNearBufferBytes = 1u << 20;

double row_merge_ms(const Statistics& s, const Limits& limits, unsigned num_threads, std::uint64_t buffer_bytes);
double dense_blas_ms(const Statistics& s, const Limits& limits, unsigned num_threads, std::uint64_t buffer_bytes);
double reference_ms(const Statistics& s, const Limits& limits, unsigned num_threads, std::uint64_t buffer_bytes);

/// How many times as fast as one thread this many are.
double parallel_speed(unsigned num_threads, const Limits& limits);

/// The product as the dense kernel sees it: rows and columns without blocks left out.
DenseExtent dense_extent(const Statistics& s);

}  // namespace spmm::plan
