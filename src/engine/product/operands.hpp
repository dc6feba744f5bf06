// The operands of a product as it multiplies them.
#pragma once

#include <optional>

#include "io/memory/transposed_source.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Two sources, each as it is or transposed while it is read. The sources must outlive it.
class ProductOperands {
 public:
  ProductOperands(const Source& a, const Source& b, const ProductOptions& options) : a_(&a), b_(&b) {
    if (options.transpose_a) a_ = &transposed_a_.emplace(a);
    if (options.transpose_b) b_ = &transposed_b_.emplace(b);
  }
  ProductOperands(const ProductOperands&) = delete;
  ProductOperands& operator=(const ProductOperands&) = delete;

  [[nodiscard]] const Source& a() const { return *a_; }
  [[nodiscard]] const Source& b() const { return *b_; }

  /// Says in a plan which of them are transposed.
  void describe(Plan& plan) const {
    plan.transpose_a = transposed_a_.has_value();
    plan.transpose_b = transposed_b_.has_value();
  }

 private:
  std::optional<io::TransposedSource> transposed_a_;
  std::optional<io::TransposedSource> transposed_b_;
  const Source* a_;
  const Source* b_;
};

}  // namespace spmm
