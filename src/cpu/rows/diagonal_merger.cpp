#include "cpu/rows/diagonal_merger.hpp"

#include <algorithm>

#include "spmm/types.hpp"

namespace spmm::cpu {

DiagonalMerger::DiagonalMerger(const DiagonalRowsProduct& rows, const Run& run)
    : a_(rows.a),
      product_(rows.product),
      kernel_(rows.kernel),
      run_(run),
      ends_(product_.ends.size()),
      sums_(kDiagonalRows * product_.ends.size()),
      records_(product_.ends.size() * output_record_bytes(1)) {
  terms_.reserve(product_.terms.size());
}

/// Sums of rows [first_row, first_row + kDiagonalRows) of the matrix.
void DiagonalMerger::sum(std::uint32_t first_row) {
  const std::vector<std::int32_t>& of_a = product_.a.offsets;
  const std::vector<DiagonalTerm>& terms = product_.terms;
  const std::vector<std::uint32_t>& ends = product_.ends;
  const auto lies_within_b = [&](std::int64_t offset) {
    const std::int64_t row = first_row + offset;
    return row >= -std::int64_t{kDiagonalRows} && row <= std::int64_t{product_.num_rows};
  };
  DiagonalRows rows{.a = product_.a.values.data() + kDiagonalRows + first_row,
                    .b = product_.b.values.data() + kDiagonalRows + first_row,
                    .terms = terms.data(),
                    .ends = ends.data(),
                    .num_sums = static_cast<std::uint32_t>(ends.size())};
  if (!lies_within_b(of_a.front()) || !lies_within_b(of_a.back())) {
    terms_.clear();
    std::uint32_t t = 0;
    for (std::size_t s = 0; s < ends.size(); ++s) {
      for (; t < ends[s]; ++t) {
        if (lies_within_b(of_a[product_.a_terms[t]])) terms_.push_back(terms[t]);
      }
      ends_[s] = static_cast<std::uint32_t>(terms_.size());
    }
    rows.terms = terms_.data();
    rows.ends = ends_.data();
  }
  kernel_.add[product_.saturates ? 1 : 0](rows, sums_.data());
}

void DiagonalMerger::write(std::uint32_t row, const std::uint32_t* sums, RowUnitOutput& out) {
  const auto num_sums = static_cast<std::uint32_t>(ends_.size());
  if (out.room() >= num_sums) {
    out.advance_to(kernel_.write(row, product_.offsets.data(), sums, num_sums, out.position()));
  } else {
    out.append(records_.data(), kernel_.write(row, product_.offsets.data(), sums, num_sums, records_.data()));
  }
}

void DiagonalMerger::merge(std::uint32_t row, std::uint64_t, std::uint32_t, std::uint32_t, RowUnitOutput& out) {
  merge_together(row, row + 1, {}, out);
}

bool DiagonalMerger::merge_together(std::uint32_t first, std::uint32_t last, std::span<const std::uint64_t>,
                                    RowUnitOutput& out) {
  const std::uint64_t end = std::uint64_t{a_.rows[last - 1]} + 1;
  for (std::uint64_t row = a_.rows[first]; row < end; row += kDiagonalRows) {
    run_.check_cancelled();
    sum(static_cast<std::uint32_t>(row));
    const std::uint64_t count = std::min<std::uint64_t>(kDiagonalRows, end - row);
    for (std::uint64_t r = 0; r < count; ++r) {
      write(static_cast<std::uint32_t>(row + r), sums_.data() + r * ends_.size(), out);
    }
  }
  return true;
}

}  // namespace spmm::cpu
