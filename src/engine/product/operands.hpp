// The operands of a product as it multiplies them.
#pragma once

#include <optional>

#include "base/records/inputs.hpp"
#include "engine/slabs/out_of_core.hpp"
#include "io/memory/transposed_source.hpp"
#include "plan/inputs/statistics.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"

namespace spmm {

/// Two sources, each as it is or transposed while it is read, and what their headers let expect. The sources must
/// outlive it.
class ProductOperands {
 public:
  ProductOperands(const Source& a, const Source& b, const ProductOptions& options = {})
      : inputs_{.a = options.transpose_a ? transposed_a_.emplace(a) : a,
                .b = options.transpose_b ? transposed_b_.emplace(b) : b},
        expected_(expected_statistics(inputs_)) {}
  ProductOperands(const ProductOperands&) = delete;
  ProductOperands& operator=(const ProductOperands&) = delete;

  [[nodiscard]] const Inputs& inputs() const { return inputs_; }
  [[nodiscard]] const plan::Statistics& expected() const { return expected_; }

  /// Says in a plan which of them are transposed.
  void describe(Plan& plan) const {
    plan.transpose_a = transposed_a_.has_value();
    plan.transpose_b = transposed_b_.has_value();
  }

 private:
  std::optional<io::TransposedSource> transposed_a_;  // in front of inputs_, which refer to them
  std::optional<io::TransposedSource> transposed_b_;
  Inputs inputs_;
  plan::Statistics expected_;
};

}  // namespace spmm
