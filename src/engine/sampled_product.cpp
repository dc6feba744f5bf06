// Pairs from sampled indices, and C blocks from a few random pairs: a C block with x pairs is met by each of them, so
// the mean of 1/x over all pairs is the number of C blocks for each pair.
#include "engine/sampled_product.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/records/head.hpp"
#include "plan/models/run_models.hpp"
#include "plan/panels/tiles.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kRunBytes = 4u << 10;       // records that are read together
constexpr std::uint64_t kLongRunBytes = 64u << 10;  // if all are read
constexpr std::uint64_t kWholeBytes = 1u << 20;     // operands of no more than this are counted as a whole
constexpr std::uint64_t kUsualStride = 16;          // one run in so many is read
constexpr std::uint64_t kMostBytes = 16u << 20;     // of a file
constexpr double kMostPicks = 128;                  // random pairs
constexpr double kMostMeetings = 4e6;               // of the rows and columns of all picked pairs
constexpr std::uint64_t kMostFound = 4u << 20;      // records in picked rows

SampledOperand sampled(const Source& source, std::uint64_t seed) {
  const auto bytes = static_cast<std::uint64_t>(plan::input_bytes(source.header()));
  const std::uint64_t stride = std::clamp<std::uint64_t>(bytes / kWholeBytes, 1, kUsualStride);
  return {.source = &source, .seed = seed, .stride = std::max(stride, bytes / kMostBytes)};
}

SampledOperand all_of(SampledOperand operand) {
  operand.stride = 1;
  return operand;
}

/// A record that was read. Values: run = which records were read together.
struct Found {
  BlockIndex at;
  std::uint64_t run;
};

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBu;
  return x ^ (x >> 31);
}
std::uint64_t mixed(BlockIndex at) {
  return mixed((std::uint64_t{at.i} << 32 | at.j) + 0x9E37'79B9'7F4A'7C15u);
}

/// Calls visit(worker, found) for the records of one run in `stride`. Returns how many were visited.
/// Threads: visit from several at once, each with a number of its own.
template <class Visit>
double visit_records(const SampledOperand& operand, unsigned num_threads, Workers& workers, const Visit& visit) {
  const MatrixHeader& header = operand.source->header();
  const std::uint64_t stride = operand.stride;
  const std::uint64_t record = input_record_bytes(header.m);
  const std::uint64_t per_run = std::max<std::uint64_t>(1, (stride == 1 ? kLongRunBytes : kRunBytes) / record);
  const std::uint64_t num_runs = (header.num_blocks + per_run * stride - 1) / (per_run * stride);
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> num_visited{0};
  const auto work = [&](unsigned worker) {
    std::vector<std::byte> records(per_run * record);
    for (std::uint64_t run = next++; run < num_runs; run = next++) {
      // Somewhere in its part of the file: a fixed place could always meet the same part of a pattern, or of the
      // other operand.
      const std::uint64_t shift = mixed(run + operand.seed) % stride;
      const std::uint64_t first = (run * stride + shift) * per_run;
      if (first >= header.num_blocks) continue;
      const std::uint64_t count = std::min<std::uint64_t>(per_run, header.num_blocks - first);
      operand.source->read(first, count, records.data());
      num_visited += count;
      for (std::uint64_t x = 0; x < count; ++x) {
        const BlockIndex at = read_index(records.data() + x * record);
        if (at.i < header.blocks_per_side() && at.j < header.blocks_per_side()) visit(worker, Found{at, run});
      }
    }
  };
  const std::uint64_t useful_threads = num_runs / (stride == 1 ? 1 : 16) + 1;
  workers.run(static_cast<unsigned>(std::min<std::uint64_t>(useful_threads, num_threads)), work);
  return static_cast<double>(num_visited.load());
}

/// The records with wanted(index), in any order; nothing if there are too many.
template <class Wanted>
std::vector<Found> find_records(const SampledOperand& operand, unsigned num_threads, Workers& workers,
                                const Wanted& wanted) {
  std::vector<std::vector<Found>> of_worker(num_threads);
  visit_records(operand, num_threads, workers, [&](unsigned worker, const Found& found) {
    std::vector<Found>& list = of_worker[worker];
    if (list.size() <= kMostFound && wanted(found.at)) list.push_back(found);
  });
  std::vector<Found> all;
  for (const std::vector<Found>& list : of_worker) all.insert(all.end(), list.begin(), list.end());
  if (all.size() > kMostFound) all.clear();
  return all;
}

/// A random pair.
struct Pick {
  Found a;
  Found b;
};

bool by_place(const Pick& x, const Pick& y) {
  return std::tie(x.b.at.j, x.a.at.i) < std::tie(y.b.at.j, y.a.at.i);
}

/// Records in order of their block columns. Shapes: begin [nb + 1], into records.
struct ByColumn {
  std::vector<Found> records;
  std::vector<std::uint32_t> begin;

  ByColumn(const std::vector<Found>& found, std::uint32_t nb) : records(found.size()), begin(std::size_t{nb} + 1) {
    for (const Found& one : found) ++begin[one.at.j];
    std::uint32_t before = 0;
    for (std::uint32_t& count : begin) before += std::exchange(count, before);
    std::vector<std::uint32_t> next = begin;
    for (const Found& one : found) records[next[one.at.j]++] = one;
  }
};

/// Random pairs, and what they share with others.
class PairPicks {
 public:
  PairPicks(const SampledOperand& a, const SampledOperand& b, unsigned num_threads, Workers& workers)
      : a_(a),
        b_(b),
        nb_(a.source->header().blocks_per_side()),
        tile_width_(plan::sums_in_tiles(a.source->header().m) ? plan::tile_blocks(a.source->header().m) : 0),
        num_threads_(num_threads),
        workers_(workers) {}

  /// Picks each pair of the sampled records with the same probability, about num_picks of them.
  void pick(const std::vector<std::atomic<std::uint32_t>>& b_blocks, double num_picks, double num_pairs) {
    const auto picks_of = [&](BlockIndex at) {
      const double expected = b_blocks[at.j].load(std::memory_order_relaxed) * num_picks / num_pairs;
      return static_cast<std::uint32_t>(expected + static_cast<double>(mixed(at)) * 0x1p-64);
    };
    std::vector<Found> of_a =
        find_records(a_, num_threads_, workers_, [&](BlockIndex at) { return picks_of(at) != 0; });
    std::vector<bool> wanted(nb_);
    for (const Found& one : of_a) wanted[one.at.j] = true;
    std::vector<Found> of_b = find_records(b_, num_threads_, workers_, [&](BlockIndex at) { return wanted[at.i]; });
    std::sort(of_b.begin(), of_b.end(), [](const Found& x, const Found& y) {
      return std::tie(x.at.i, x.at.j) < std::tie(y.at.i, y.at.j);  // threads find them in any order
    });
    for (const Found& one : of_a) {
      const auto [first, last] = std::equal_range(of_b.begin(), of_b.end(), Found{{one.at.j, 0}, 0},
                                                  [](const Found& x, const Found& y) { return x.at.i < y.at.i; });
      if (first == last) continue;
      for (std::uint32_t x = picks_of(one.at); x != 0; --x) {
        const std::uint64_t place = mixed(mixed(one.at) + x) % static_cast<std::uint64_t>(last - first);
        picks_.push_back({.a = one, .b = first[static_cast<std::ptrdiff_t>(place)]});
      }
    }
    std::sort(picks_.begin(), picks_.end(), by_place);
    pairs_ = std::vector<std::atomic<std::uint64_t>>(picks_.size());
    blocks_ = std::vector<std::atomic<std::uint64_t>>(picks_.size());
  }

  /// Counts what meets the picks in the sampled records, or in all. False: there are none, or too many records are in
  /// their rows.
  bool count(const SampledOperand& a, const SampledOperand& b) {
    std::vector<bool> rows(nb_);
    std::vector<bool> columns(nb_);
    std::vector<bool> inner(nb_);
    for (const Pick& one : picks_) {
      rows[one.a.at.i] = true;
      columns[one.b.at.j] = true;
      inner[one.b.at.i] = tile_width_ != 0;
    }
    const ByColumn of_a(find_records(a, num_threads_, workers_, [&](BlockIndex at) { return rows[at.i]; }), nb_);
    if (of_a.records.empty()) return false;
    visit_records(b, num_threads_, workers_, [&](unsigned, const Found& found) {
      if (columns[found.at.j]) count_pairs(of_a, found, a.stride, b.stride);
      if (inner[found.at.i]) count_blocks(found, b.stride);
    });
    return true;
  }

  /// C blocks for each pair, and tiles of B that blocks of A meet.
  /// Values: exact = all records were read; else the mean of what the picks share is all that is known.
  [[nodiscard]] double c_blocks_each(bool exact) const { return share_of(pairs_, exact); }
  [[nodiscard]] double tiles_each(bool exact) const { return share_of(blocks_, exact); }

 private:
  /// Each pair of a picked row with a block of a picked column. What was read together with a pick was read for
  /// certain. By the inner index: where many picks share a column, few of their rows meet one block of it.
  void count_pairs(const ByColumn& of_a, const Found& b, std::uint64_t a_stride, std::uint64_t b_stride) {
    for (std::uint32_t x = of_a.begin[b.at.i]; x != of_a.begin[b.at.i + 1]; ++x) {
      const Found& a = of_a.records[x];
      auto pick = std::lower_bound(picks_.begin(), picks_.end(), Pick{.a = a, .b = b}, by_place);
      for (; pick != picks_.end() && pick->a.at.i == a.at.i && pick->b.at.j == b.at.j; ++pick) {
        if (pick->a.at.j == b.at.i) continue;
        const std::uint64_t stands_for = (a.run == pick->a.run ? 1 : a_stride) * (b.run == pick->b.run ? 1 : b_stride);
        pairs_[static_cast<std::size_t>(pick - picks_.begin())].fetch_add(stands_for, std::memory_order_relaxed);
      }
    }
  }

  /// Another block of B in the tile of a pick.
  void count_blocks(const Found& b, std::uint64_t b_stride) {
    const std::uint32_t tile = b.at.j / tile_width_;
    auto pick = std::lower_bound(picks_.begin(), picks_.end(), tile * tile_width_,
                                 [](const Pick& x, std::uint32_t column) { return x.b.at.j < column; });
    for (; pick != picks_.end() && pick->b.at.j / tile_width_ == tile; ++pick) {
      if (pick->b.at.i != b.at.i || pick->b.at.j == b.at.j) continue;
      const std::uint64_t stands_for = b.run == pick->b.run ? 1 : b_stride;
      blocks_[static_cast<std::size_t>(pick - picks_.begin())].fetch_add(stands_for, std::memory_order_relaxed);
    }
  }

  static double share_of(const std::vector<std::atomic<std::uint64_t>>& shared, bool exact) {
    double sum = 0;
    for (const std::atomic<std::uint64_t>& others : shared) {
      const double sharing = 1 + static_cast<double>(others.load());
      sum += exact ? 1 / sharing : sharing;
    }
    const auto num = static_cast<double>(shared.size());
    return exact ? sum / num : num / sum;
  }

  const SampledOperand& a_;
  const SampledOperand& b_;
  std::uint32_t nb_;
  std::uint32_t tile_width_;  // in blocks; 0 = B is not taken apart into tiles
  unsigned num_threads_;
  Workers& workers_;
  std::vector<Pick> picks_;                         // by_place
  std::vector<std::atomic<std::uint64_t>> pairs_;   // [picks], other pairs of the same C block
  std::vector<std::atomic<std::uint64_t>> blocks_;  // [picks], other blocks of B in the same tile
};

}  // namespace

SampledProduct::SampledProduct(const ProductOperands& operands, unsigned num_threads, Workers& workers)
    : statistics_(operands.expected()),
      a_(sampled(operands.inputs().a, 1)),
      b_(sampled(operands.inputs().b, std::uint64_t{1} << 32)),
      num_threads_(std::max(1U, num_threads)),
      workers_(workers),
      b_blocks_(statistics_.nb()) {
  plan::Statistics& s = statistics_;
  const auto weigh = [&](SampledOperand& one, double visited) {
    if (visited > 0) one.weight = one.source->header().num_blocks / visited;
  };
  weigh(b_, visit_records(b_, num_threads_, workers, [&](unsigned, const Found& found) {
          b_blocks_[found.at.i].fetch_add(1, std::memory_order_relaxed);
        }));
  std::atomic<std::uint64_t> pairs{0};
  weigh(a_, visit_records(a_, num_threads_, workers, [&](unsigned, const Found& found) {
          const std::uint32_t met = b_blocks_[found.at.j].load(std::memory_order_relaxed);
          if (met != 0) pairs.fetch_add(met, std::memory_order_relaxed);
        }));
  sampled_pairs_ = static_cast<double>(pairs.load());
  const double evenly_spread = std::max(1.0, s.num_pairs);
  s.num_pairs = sampled_pairs_ * a_.weight * b_.weight;
  s.tile_pairs *= s.num_pairs / evenly_spread;
  s.num_c_blocks = std::min(s.num_c_blocks, s.num_pairs);
  s.likely_c_blocks = s.num_c_blocks;
}

plan::Statistics SampledProduct::count_c_blocks(bool reads_all) const {
  plan::Statistics s = statistics_;
  if (sampled_pairs_ == 0) return s;
  const double nb = s.nb();
  const double pairs_a_place = s.num_pairs / (nb * nb);
  const double num_picks = std::clamp(std::sqrt(kMostMeetings / pairs_a_place), 1.0, kMostPicks);
  PairPicks picks(a_, b_, num_threads_, workers_);
  picks.pick(b_blocks_, num_picks, sampled_pairs_);
  if (!(reads_all ? picks.count(all_of(a_), all_of(b_)) : picks.count(a_, b_))) return s;
  const bool exact = reads_all || (a_.stride == 1 && b_.stride == 1);
  s.num_c_blocks = std::clamp(s.num_pairs * picks.c_blocks_each(exact), 1.0, nb * nb);
  s.likely_c_blocks = s.num_c_blocks;
  if (plan::sums_in_tiles(s.m())) s.tile_pairs = s.num_pairs * picks.tiles_each(exact);
  return s;
}

}  // namespace spmm
