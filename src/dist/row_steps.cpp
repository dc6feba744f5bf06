#include "dist/row_steps.hpp"

#include "dist/distinct_rows.hpp"
#include "dist/row_ranges.hpp"

namespace spmm::dist {
namespace {

std::vector<std::uint32_t> numbers(const RecordStore& a, std::uint32_t BlockIndex::*which) {
  std::vector<std::uint32_t> all;
  all.reserve(a.size());
  for (std::uint64_t r = 0; r < a.size(); ++r) all.push_back(a.index(r).*which);
  return all;
}

}  // namespace

std::vector<std::uint32_t> met_rows(const RecordStore& a, std::uint32_t blocks_per_side) {
  return DistinctRows(numbers(a, &BlockIndex::j), blocks_per_side).rows();
}

RowSteps::RowSteps(const RecordStore& a, const MatrixHeader& header, const BRows& b_rows, std::uint64_t limit_bytes,
                   StoreLimit& limit)
    : a_(a), record_bytes_(sent_record_bytes(header.m)), order_(a.size()), records_(header.m, limit) {
  const std::uint32_t nb = header.blocks_per_side();
  const DistinctRows met(numbers(a, &BlockIndex::j), nb);
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t blocks : b_rows.count(met.rows())) sizes.push_back(blocks * record_bytes_);
  const DistinctRows rows(numbers(a, &BlockIndex::i), nb);
  row_begins_.assign(rows.rows().size() + 1, 0);
  for (std::uint64_t r = 0; r < a.size(); ++r) ++row_begins_[rows.position(a.index(r).i) + 1];
  for (std::size_t x = 1; x < row_begins_.size(); ++x) row_begins_[x] += row_begins_[x - 1];
  std::vector<std::uint64_t> next(row_begins_.begin(), row_begins_.end() - 1);
  std::vector<std::uint32_t> meets(a.size());
  for (std::uint64_t r = 0; r < a.size(); ++r) {
    const BlockIndex at = a.index(r);
    const std::uint64_t place = next[rows.position(at.i)]++;
    order_[place] = static_cast<std::uint32_t>(r);
    meets[place] = met.position(at.j);
  }
  first_rows_ = cut_steps(row_begins_, meets, sizes, limit_bytes);
}

void RowSteps::go_to(std::uint64_t step) {
  records_.clear();
  if (step >= num_steps()) return;
  for (std::uint64_t x = row_begins_[first_rows_[step]]; x < row_begins_[first_rows_[step + 1]]; ++x) {
    records_.add({a_.sent(order_[x]), record_bytes_});
  }
}

}  // namespace spmm::dist
