// What indices tell of a product before anything is built: pairs and C blocks, from samples of both operands.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/run/workers.hpp"
#include "engine/product/operands.hpp"
#include "plan/inputs/statistics.hpp"

namespace spmm {

/// How many records are read: short runs of them all over a file, one run in `stride`.
struct SampledOperand {
  const Source* source = nullptr;
  std::uint64_t seed = 0;  ///< where the runs lie: two operands in the same order meet too often in the same runs
  std::uint64_t stride = 1;
  double weight = 1;  ///< records that stand for each that was read
};

/// Statistics from indices of both operands: of all records of small operands, else of one in 16, and of 16 MB of a
/// large file. Indices outside of the matrix are left out: who reads the records says what is wrong.
/// Memory: 4 bytes a block row, and 64 KB a thread. Errors: what sources throw.
class SampledProduct {
 public:
  SampledProduct(const ProductOperands& operands, unsigned num_threads, Workers& workers);

  /// Pairs are exact or estimated without bias; C blocks are those of the headers, or fewer if there are fewer pairs.
  [[nodiscard]] const plan::Statistics& statistics() const { return statistics_; }

  /// The same with C blocks, and tiles, from up to 128 random pairs: of each it counts the other pairs that meet its C
  /// block, in all records or in the sampled ones. All records: without bias. Sampled ones: exact if each C block has
  /// as many pairs, else too few C blocks. Memory: 16 bytes a record in a row that is picked; if there are more than 4
  /// Mi of them, statistics().
  [[nodiscard]] plan::Statistics count_c_blocks(bool reads_all) const;

 private:
  plan::Statistics statistics_;
  SampledOperand a_;
  SampledOperand b_;
  unsigned num_threads_;
  Workers& workers_;
  std::vector<std::atomic<std::uint32_t>> b_blocks_;  // [nb], of the sampled records
  double sampled_pairs_ = 0;
};

}  // namespace spmm
