// Which backend a product that leaves it open runs on. Makes no CUDA call.
#pragma once

#include "base/run/parallel.hpp"
#include "engine/product.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Memory of a device before its start. An assumption: an A100 or H100 of 80 GB has more, an H200 twice as much. The
/// start shows what there is, and the product is decided on again.
inline constexpr std::uint64_t kUnseenDeviceBytes = std::uint64_t{64} << 30;

struct BackendChoice {
  Backend backend = Backend::cpu;
  BackendTimes times{};      ///< predicted
  unsigned num_devices = 1;  ///< that the product is worth to share
};

/// The backend on which the product ends first. Headers tell how much work evenly spread blocks make. If the CPU may
/// be the faster one, indices of both operands are sampled: skewed ones may make a hundred times the work. If the
/// choice depends on the size of the result, its C blocks are estimated from random pairs.
/// Values: limits.gpus has one. Errors: what sources throw.
BackendChoice choose_backend(const ProductOperands& operands, const plan::Limits& limits, Workers& workers);

/// Statistics of a sample of both operands' indices, with C blocks of up to 4 Mi records of each, or as many as those
/// pairs may have. Those of the headers if the sample has hardly any pairs, or if there are too many block rows to
/// count. Errors: what sources throw.
plan::Statistics sampled_statistics(const ProductOperands& operands, unsigned num_threads, Workers& workers,
                                    bool counts_c_blocks = true);

/// What a plan is made from before a product starts.
enum class Expecting : std::uint8_t {
  most,    ///< as many pairs as the headers allow; nothing is read
  pairs,   ///< those of a sample, and as many C blocks as they may have: some milliseconds
  sample,  ///< C blocks are counted, too: up to 0.1 s
};

/// What is expected on the backend and by the kernel that the options name or leave open. Its predicted_s is 0 if no
/// time is known, or if the product is refused. Starts no device. Errors: UsageError (unknown kernel); what sources
/// throw.
Plan expected_plan(const Source& a, const Source& b, const Options& options, Expecting expecting);

/// How many of `num_visible` devices, none of them started, an engine starts for a product of evenly spread blocks,
/// if the options name none; 0 = the CPU is expected to run it. Starts no device.
/// Values: discards_result = the output is a character device. Errors: UsageError, OutputError (too many parts).
unsigned expected_devices(const MatrixHeader& a, const MatrixHeader& b, const Options& options, unsigned num_visible,
                          bool discards_result);

}  // namespace spmm
