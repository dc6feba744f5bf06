// Which CPU kernel "auto" takes, from counts and measured rates. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "cpu/dense_panels.hpp"
#include "cpu/isa.hpp"

namespace spmm::cpu {

/// What is known of a product, exactly once it is counted, or for evenly spread blocks before that.
struct ProductCounts {
  Isa isa = Isa::portable;
  bool wide = false;  ///< elements of 2^15 and more: see kernels.hpp
  unsigned num_threads = 1;
  double pairs = 0;
  DenseExtent extent;  ///< at most
};

/// Milliseconds of the multiply stage.
struct PredictedTimes {
  double row_merge_ms = 0;
  double dense_blas_ms = 0;

  [[nodiscard]] bool prefers_dense() const { return dense_blas_ms < row_merge_ms; }
};

PredictedTimes predict_times(const ProductCounts& counts);

/// "dense-blas 172 ms, row-merge 454 ms": fastest first.
std::string predicted_text(const PredictedTimes& times);

}  // namespace spmm::cpu
