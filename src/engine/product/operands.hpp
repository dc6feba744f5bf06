// The operands of a product as it multiplies them.
#pragma once

#include <optional>

#include "base/records/inputs.hpp"
#include "base/run/run.hpp"
#include "io/memory/picked_source.hpp"
#include "io/memory/transposed_source.hpp"
#include "plan/statistics.hpp"
#include "spmm/arrays.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"

namespace spmm {

/// Two sources, each as it is or transposed while it is read, of A some block rows alone, and what their headers let
/// expect. The sources must outlive it.
class ProductOperands {
 public:
  ProductOperands(const Source& a, const Source& b)
      : inputs_{.a = a, .b = b}, expected_(plan::expected_statistics(a.header(), b.header())) {}
  /// Reads A once where the options name some rows. Errors: as PickedSource; UsageError (no such rows).
  ProductOperands(const Source& a, const Source& b, const ProductOptions& options, const Run& run)
      : rows_(checked_rows(options.rows, a.header().blocks_per_side())),
        inputs_{.a = transposed(rows_of(a, options.transpose_a, run), options.transpose_a, transposed_a_),
                .b = transposed(b, options.transpose_b, transposed_b_),
                .num_rows = rows_.end - rows_.first},
        expected_(plan::expected_statistics(inputs_.a.header(), inputs_.b.header(), inputs_.num_rows)) {}
  ProductOperands(const ProductOperands&) = delete;
  ProductOperands& operator=(const ProductOperands&) = delete;

  [[nodiscard]] const Inputs& inputs() const { return inputs_; }
  [[nodiscard]] const plan::Statistics& expected() const { return expected_; }

  /// Says in a plan which of them are transposed, and which rows are computed.
  void describe(Plan& plan) const {
    plan.transpose_a = transposed_a_.has_value();
    plan.transpose_b = transposed_b_.has_value();
    plan.rows = checked_rows(rows_, inputs_.a.header().blocks_per_side());
  }

 private:
  /// The block rows of A, as it will be transposed or not: records are picked first.
  const Source& rows_of(const Source& a, bool is_transposed, const Run& run) {
    if (rows_.covers(a.header().blocks_per_side())) return a;
    return picked_a_.emplace(a, rows_, is_transposed ? &BlockIndex::j : &BlockIndex::i, run);
  }

  static const Source& transposed(const Source& plain, bool is_transposed, std::optional<io::TransposedSource>& made) {
    return is_transposed ? made.emplace(plain) : plain;
  }

  RowRange rows_{};
  std::optional<io::PickedSource> picked_a_;  // in front of inputs_, which refer to them
  std::optional<io::TransposedSource> transposed_a_;
  std::optional<io::TransposedSource> transposed_b_;
  Inputs inputs_;
  plan::Statistics expected_;
};

}  // namespace spmm
