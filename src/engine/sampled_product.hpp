// What indices tell of a product before anything is built: pairs and C blocks, from samples of both operands.
#pragma once

#include <cstdint>
#include <vector>

#include "base/records/head.hpp"
#include "base/run/parallel.hpp"
#include "engine/product.hpp"
#include "plan/execution.hpp"

namespace spmm {

/// Which records of an operand are read: short runs of them all over a file, one run in `stride`.
struct SampledOperand {
  const Source* source = nullptr;
  std::uint64_t seed = 0;  ///< where the runs lie: two operands in the same order meet too often in the same runs
  std::uint64_t stride = 1;
  std::uint64_t run_length = 1;       ///< records
  std::vector<BlockIndex> records{};  ///< those read
};

/// Statistics from indices of both operands: of all records of operands of 1 MB, else of 8,192 or one in 128, if that
/// is more, but of 24,576 and of one in 16 at most. Indices outside of the matrix are left out: who reads the records
/// says what is wrong. Memory: 16 bytes a record, 4 bytes a block row, and 150 KB a thread. Errors: what sources
/// throw.
class SampledProduct {
 public:
  SampledProduct(const ProductOperands& operands, unsigned num_threads, Workers& workers);

  /// Pairs are exact or estimated without bias; C blocks are those of the headers, or fewer if there are fewer pairs.
  [[nodiscard]] const plan::Statistics& statistics() const { return statistics_; }

  /// The same with C blocks from random pairs: of each, the other pairs of its C block are counted in one record of
  /// `stride`, which are read in addition. Without bias if all are read; else pairs of C blocks are taken for
  /// log-normally distributed. Memory: 16 bytes a record in a row or column of a random pair; if there are more than
  /// 4 Mi of them, statistics().
  [[nodiscard]] plan::Statistics count_c_blocks(std::uint64_t stride = 1) const;

  /// Of the operand whose sample is denser: one record in `stride` was read.
  [[nodiscard]] std::uint64_t least_stride() const { return std::min(a_.stride, b_.stride); }

 private:
  plan::Statistics statistics_;
  SampledOperand a_;
  SampledOperand b_;
  unsigned num_threads_;
  Workers& workers_;
  std::vector<std::uint32_t> b_blocks_;  // [nb], of the sampled records
  double sampled_pairs_ = 0;
};

}  // namespace spmm
