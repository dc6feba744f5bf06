// What indices tell of a product before it starts, and which backend it runs on. Makes no CUDA call.
#pragma once

#include <functional>

#include "base/records/inputs.hpp"
#include "base/run/parallel.hpp"
#include "plan/choice.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Memory of a device before its start. An assumption: an A100 or H100 of 80 GB has more, an H200 twice as much. The
/// start shows what there is, and the product is decided on again.
inline constexpr std::uint64_t kUnseenDeviceBytes = std::uint64_t{64} << 30;

/// Counts of evenly spread blocks.
inline plan::Counts expected_of(const Inputs& inputs) {
  return plan::expected_counts(inputs.a.header(), inputs.b.header(), inputs.num_rows);
}

/// Counts of a sample of both operands' indices: of all records of operands of 1 MB, else of 8,192 or one in 128,
/// if that is more, but of 24,576 and of one in 16 at most. Pairs are exact or estimated without bias; C blocks are
/// those of evenly spread blocks, or as many as pairs. If `wants_c_blocks` says so of these statistics, C blocks are
/// estimated from random pairs instead, and all records are read once. Indices outside of the matrix are left out: who
/// reads the records says what is wrong. Memory: 16 bytes a record of the sample and of the rows and columns of random
/// pairs, 4 Mi of them at most, 4 bytes a block row, and 150 KB a thread. Errors: what sources throw.
plan::Counts sampled(const Inputs& inputs, unsigned num_threads, Workers& workers,
                     const std::function<bool(const plan::Counts&)>& wants_c_blocks);

/// What is decided if the options leave the backend open: that on which the product ends first. Headers tell how much
/// work evenly spread blocks make. If the CPU may be the faster one, indices are sampled: skewed ones may make a
/// hundred times the work. If the choice depends on the size of the result, its C blocks are estimated.
/// Values: limits.gpus has one. Errors: what sources throw.
plan::Choice choose_backend(const Inputs& inputs, const plan::Limits& limits, Workers& workers);

/// What a plan is made from before a product starts.
enum class Expecting : std::uint8_t {
  most,    ///< as many pairs as the headers allow; nothing is read
  pairs,   ///< those of a sample, and as many C blocks as they may have: some milliseconds
  sample,  ///< C blocks are estimated, too, unless that takes more than a tenth of the product and half a second
};

/// Those of the headers if a sample has hardly any pairs, or if there are too many block rows to count. Errors: what
/// sources throw.
plan::Counts expected_counts(const Inputs& inputs, const plan::Limits& limits, Workers& workers, Expecting expecting);

/// What is expected on the backend and by the kernel that the options name or leave open. Its predicted_s is 0 if no
/// time is known, or if the product is refused. Starts no device. Errors: UsageError (unknown kernel); what sources
/// throw.
Plan expected_plan(const Source& a, const Source& b, const Options& options, Expecting expecting);

/// How many of `num_visible` devices, none of them started, an engine starts for a product of evenly spread blocks,
/// if the options name none; 0 = the CPU is expected to run it. Starts no device.
/// Values: discards_result = the output is a character device. Errors: UsageError.
unsigned expected_devices(const MatrixHeader& a, const MatrixHeader& b, const Options& options, unsigned num_visible,
                          bool discards_result);

}  // namespace spmm
