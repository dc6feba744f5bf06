// Partial products of several devices -> C.
#pragma once

#include <cstdint>
#include <deque>

#include "base/run.hpp"
#include "engine/slab_streams.hpp"

namespace spmm {

/// Adds up partial products block by block, saturating, and hands the sum to `sink` in order; returns its blocks. A
/// block is zero nowhere, for no partial product has a zero block and nothing cancels.
/// Threads: those of the run, each a run of blocks at a time.
/// Memory: plan::num_sum_buffers() of plan::kSumBufferBytes; they live until the sink has released them.
/// Errors: what the sink throws, Interrupted.
std::uint64_t add_partials(const std::deque<slabs::KeepingSink>& partials, std::uint32_t m, Sink& sink, const Run& run);

}  // namespace spmm
