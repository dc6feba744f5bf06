// Which backend a product that leaves it open runs on. Makes no CUDA call.
#pragma once

#include "base/run/workers.hpp"
#include "engine/product/operands.hpp"
#include "plan/inputs/statistics.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"
#include "spmm/stream.hpp"

namespace spmm {

struct BackendChoice {
  Backend backend = Backend::cpu;
  double cuda_s = 0;  ///< predicted for the whole product, start of the device included; 0 = it does not fit
  double cpu_s = 0;
  unsigned num_devices = 1;  ///< that the product is worth to share
};

/// The backend on which the product ends first. Headers tell how much work evenly spread blocks make; if that speaks
/// for the CPU, indices of both operands are sampled and counted first: skewed ones may make a hundred times the work.
/// Values: limits.device is set. Errors: what sources throw.
BackendChoice choose_backend(const ProductOperands& operands, const plan::Limits& limits, Workers& workers);

/// Predicted seconds of a product of evenly spread blocks on the backend and by the kernel that the options name or
/// leave open; 0 if none is known, or if the product is refused. Starts no device.
/// Errors: UsageError (unknown kernel).
double expected_seconds(const MatrixHeader& a, const MatrixHeader& b, const Options& options);

/// Statistics from indices of both operands: of all records of small operands, else of short runs of them all over the
/// file, one in at most 16. Pairs are exact or estimated without bias; C blocks are those of the headers, or fewer
/// where there are fewer pairs. Indices outside of the matrix are left out: who reads the records says what is wrong.
/// Memory: 4 bytes a block row, and 16 KB a thread. Errors: what sources throw.
plan::Statistics sample_statistics(const ProductOperands& operands, unsigned num_threads, Workers& workers);

}  // namespace spmm
