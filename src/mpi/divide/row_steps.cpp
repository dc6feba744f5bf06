// Steps of rounds whose rows of B fit the memory.
#include "mpi/divide/row_steps.hpp"

#include <algorithm>

#include "mpi/exchange/distinct_rows.hpp"
#include "mpi/exchange/row_ranges.hpp"

namespace spmm::mpi {
namespace {

std::vector<std::uint32_t> met_numbers(const RecordStore& a) {
  std::vector<std::uint32_t> all;
  all.reserve(a.size());
  for (std::uint64_t r = 0; r < a.size(); ++r) all.push_back(a.index(r).j);
  return all;
}

}  // namespace

std::vector<std::uint32_t> met_rows(const RecordStore& a, std::uint32_t blocks_per_side) {
  return DistinctRows(met_numbers(a), blocks_per_side).rows();
}

RowSteps::RowSteps(const Communicator& ranks, const RecordStore& a, const Division& division, const BRows& b_rows,
                   std::uint32_t blocks_per_side, StoreLimit& limit)
    : a_(a),
      record_bytes_(a.record_bytes()),
      num_rounds_(division.num_rounds),
      rounds_per_step_(division.num_rounds),
      records_(a.record_bytes(), limit) {
  const DistinctRows met(met_numbers(a), blocks_per_side);
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t blocks : b_rows.count(met.rows())) sizes.push_back(blocks * record_bytes_);
  std::vector<std::uint32_t> meets;
  for (std::uint64_t r = 0; r < a.size(); ++r) {
    rounds_.push_back(division.round_of(a.index(r).i));
    meets.push_back(met.position(a.index(r).j));
  }
  while (rounds_per_step_ > 1 &&
         ranks.max(largest_step(rounds_, meets, sizes, rounds_per_step_, num_rounds_)) > limit.limit() / 2) {
    rounds_per_step_ /= 2;
  }
}

void RowSteps::go_to(std::uint32_t step) {
  records_.clear();
  for (std::uint64_t r = 0; r < rounds_.size(); ++r) {
    if (rounds_[r] / rounds_per_step_ == step) records_.add({a_.sent(r), record_bytes_});
  }
}

}  // namespace spmm::mpi
