// Rows of C divided by exact counts of pairs.
#include "mpi/divide/division.hpp"

#include <algorithm>
#include <numeric>

#include "base/records/head.hpp"
#include "mpi/exchange/distinct_rows.hpp"

namespace spmm::mpi {
namespace {

constexpr std::uint32_t kMaxRounds = 4096;

std::vector<std::uint32_t> numbers(std::span<const BlockIndex> indices, std::uint32_t BlockIndex::*which) {
  std::vector<std::uint32_t> all;
  all.reserve(indices.size());
  for (const BlockIndex& at : indices) all.push_back(at.*which);
  return all;
}

/// Work of the rows in this rank's share of A, as far as its records make it. Collective.
std::vector<RowWork> own_work(std::span<const BlockIndex> indices, const BRows& b_rows, std::uint32_t blocks_per_side) {
  const DistinctRows met(numbers(indices, &BlockIndex::j), blocks_per_side);
  const std::vector<std::uint32_t> sizes = b_rows.count(met.rows());
  const DistinctRows rows(numbers(indices, &BlockIndex::i), blocks_per_side);
  std::vector<RowWork> work;
  work.reserve(rows.rows().size());
  for (const std::uint32_t row : rows.rows()) work.push_back({.row = row});
  for (const BlockIndex& at : indices) {
    RowWork& row = work[rows.position(at.i)];
    row.pairs += sizes[met.position(at.j)];
    ++row.blocks;
  }
  return work;
}

/// Calls body(range, row) for rows in ascending order.
template <class Body>
void for_ranges(const Division& division, std::span<const RowWork> rows, const Body& body) {
  std::uint32_t range = 0;
  for (const RowWork& row : rows) {
    while (range < division.borders.size() && division.borders[range] <= row.row) ++range;
    body(range, row);
  }
}

}  // namespace

Standing standing_of(const Group& group, std::span<const RowWork> rows) {
  std::uint64_t own = 0;
  for (const RowWork& row : rows) own += row.weight();
  const std::vector<std::uint64_t> weights = group.ranks.gather(own);
  const auto here = weights.begin() + group.ranks.rank();
  return {.weight_before = std::accumulate(weights.begin(), here, std::uint64_t{0}),
          .weight = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0})};
}

std::vector<BlockIndex> read_indices(const Group& group, const Source& a) {
  const std::uint64_t record = input_record_bytes(a.header().m);
  std::vector<BlockIndex> indices;
  const Share share = share_of(a.header().num_blocks, group.ranks.rank(), group.ranks.size());
  indices.reserve(share.end - share.begin);
  read_share(group, a, [&](std::uint64_t first, const std::byte* records, std::uint64_t count) {
    check_indices(a, first, records, count);
    for (std::uint64_t r = 0; r < count; ++r) indices.push_back(read_index(records + r * record));
  });
  return indices;
}

std::vector<RowWork> count_rows(const Group& group, std::span<const BlockIndex> indices,
                                const std::vector<std::uint32_t>& samples, const BRows& b_rows,
                                std::uint32_t blocks_per_side) {
  const std::vector<std::uint32_t> first_rows = split_rows(group, samples);
  return merged(at_homes(group, own_work(indices, b_rows, blocks_per_side), first_rows));
}

Division divide(const Group& group, std::span<const RowWork> rows, std::uint64_t num_columns,
                std::uint64_t wanted_c_blocks, std::uint32_t min_rounds) {
  const Standing standing = standing_of(group, rows);
  const auto num_ranks = static_cast<std::uint32_t>(group.ranks.size());
  std::uint64_t c_blocks_here = 0;
  for (const RowWork& row : rows) c_blocks_here += row.max_c_blocks(num_columns);
  const std::uint64_t per_round = std::max<std::uint64_t>(1, wanted_c_blocks) * num_ranks;
  const std::uint64_t at_least = group.ranks.sum(c_blocks_here) / per_round;  // rounds, however even the ranges are
  Division division;
  division.num_ranks = num_ranks;
  division.num_rounds = min_rounds;
  while (division.num_rounds < std::min<std::uint64_t>(at_least, kMaxRounds)) division.num_rounds *= 2;
  std::vector<std::uint64_t> c_blocks;
  for (std::uint64_t earlier_most = 0;; division.num_rounds *= 2) {
    const std::uint32_t num_ranges = division.num_rounds * num_ranks;
    division.borders = borders_in(rows, standing.weight_before, standing.weight, num_ranges);
    group.ranks.max(division.borders);
    c_blocks.assign(num_ranges, 0);
    for_ranges(division, rows,
               [&](std::uint32_t range, const RowWork& row) { c_blocks[range] += row.max_c_blocks(num_columns); });
    group.ranks.sum(c_blocks);
    division.max_c_blocks = *std::max_element(c_blocks.begin(), c_blocks.end());
    const bool gains = earlier_most == 0 || division.max_c_blocks < earlier_most;  // else one row alone is the largest
    if (division.max_c_blocks <= wanted_c_blocks || !gains || division.num_rounds >= kMaxRounds) break;
    earlier_most = division.max_c_blocks;
  }
  division.pairs_of_ranks.assign(num_ranks, 0);
  division.c_blocks_of_ranks.assign(num_ranks, 0);
  for_ranges(division, rows,
             [&](std::uint32_t range, const RowWork& row) { division.pairs_of_ranks[range % num_ranks] += row.pairs; });
  for (std::uint32_t x = 0; x < c_blocks.size(); ++x) division.c_blocks_of_ranks[x % num_ranks] += c_blocks[x];
  group.ranks.sum(division.pairs_of_ranks);
  division.pairs = std::accumulate(division.pairs_of_ranks.begin(), division.pairs_of_ranks.end(), std::uint64_t{0});
  return division;
}

}  // namespace spmm::mpi
