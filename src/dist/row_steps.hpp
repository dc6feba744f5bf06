// A rank's rows of A in steps, each of which meets no more of B than fits.
#pragma once

#include <cstdint>
#include <vector>

#include "dist/b_rows.hpp"
#include "dist/record_store.hpp"

namespace spmm::dist {

/// Block rows of B that records of A meet, ascending.
std::vector<std::uint32_t> met_rows(const RecordStore& a, std::uint32_t blocks_per_side);

/// Memory: a copy of the records of one step, 12 bytes for each record of all of them.
class RowSteps {
 public:
  /// Values: limit_bytes = of rows of B in one step; a single row of A may pass it. Collective.
  RowSteps(const RecordStore& a, const MatrixHeader& header, const BRows& b_rows, std::uint64_t limit_bytes,
           StoreLimit& limit);

  [[nodiscard]] std::uint64_t num_steps() const { return first_rows_.size() - 1; }
  /// Takes the records of a step; none where this rank has fewer steps. Errors: OutOfMemory.
  void go_to(std::uint64_t step);
  [[nodiscard]] const RecordStore& records() const { return records_; }

 private:
  const RecordStore& a_;
  std::uint64_t record_bytes_;
  std::vector<std::uint64_t> row_begins_;  // [rows + 1]
  std::vector<std::uint32_t> order_;       // records of A, row by row
  std::vector<std::uint32_t> first_rows_;  // of the steps, positions among the stored rows
  RecordStore records_;
};

}  // namespace spmm::dist
