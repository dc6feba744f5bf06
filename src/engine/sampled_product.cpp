// Pairs from sampled indices, and C blocks from a few random pairs: a C block with x pairs is met by each of them, so
// the mean of 1/x over all pairs is the number of C blocks for each pair.
#include "engine/sampled_product.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/records/head.hpp"
#include "plan/models/run_models.hpp"
#include "plan/panels/tiles.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kRunBytes = 4u << 10;       // of records that are read together: half of it takes as long
constexpr std::uint64_t kLongRunBytes = 64u << 10;  // if all are read
constexpr std::uint64_t kFirstRunLength = 32;       // records; of few records, more runs tell more
constexpr std::uint64_t kWholeBytes = 1u << 20;     // of no more than this, all records are wanted
constexpr std::uint64_t kUsualStride = 16;          // one run in so many is read, of records that are few but long
constexpr std::uint64_t kFewRecords = 1u << 13;     // of larger ones so many are, or
constexpr std::uint64_t kSampledShare = 128;        // one in so many, if that is more
constexpr std::size_t kFewPicks = 128;              // random pairs
constexpr double kMostPicks = 2'048;                // if few of their rows and columns meet
constexpr double kCountedPicks = 512;               // if all records are examined: a mean within 5 %
constexpr double kMostMeetings = 5e4;               // of the rows and columns of all picked pairs
constexpr double kCountedMeetings = 4e5;            // the same if all records are examined
constexpr std::uint64_t kMostFound = 4u << 20;      // records in picked rows, of a thread

using Found = SampledRecord;

/// Records that are read together if one run in `stride` is.
std::uint64_t records_of_run(const Source& source, std::uint64_t stride) {
  const std::uint64_t bytes = stride == 1 ? kLongRunBytes : kRunBytes;
  return std::max<std::uint64_t>(1, bytes / input_record_bytes(source.header().m));
}

SampledOperand sampled(const Source& source, std::uint64_t seed, std::uint64_t most_records) {
  const MatrixHeader& header = source.header();
  const auto bytes = static_cast<std::uint64_t>(plan::input_bytes(header));
  const std::uint64_t least_stride = std::clamp<std::uint64_t>(bytes / kWholeBytes, 1, kUsualStride);
  const std::uint64_t wanted =
      bytes <= kWholeBytes ? SampledProduct::kMostRecords : std::max(kFewRecords, header.num_blocks / kSampledShare);
  const std::uint64_t stride = std::max(least_stride, header.num_blocks / std::min(wanted, most_records));
  const std::uint64_t most = records_of_run(source, stride);
  return {.source = &source,
          .seed = seed,
          .stride = stride,
          .run_length = stride == 1 ? most : std::min(kFirstRunLength, most)};
}

/// What is read once more, in runs that lie elsewhere.
SampledOperand again(const SampledOperand& operand, std::uint64_t stride) {
  return {.source = operand.source,
          .seed = ~operand.seed,
          .stride = stride,
          .run_length = records_of_run(*operand.source, stride)};
}

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBu;
  return x ^ (x >> 31);
}
std::uint64_t mixed(BlockIndex at) {
  return mixed((std::uint64_t{at.i} << 32 | at.j) + 0x9E37'79B9'7F4A'7C15u);
}

/// The records of one run in `stride` with wanted(index), in any order; nothing if there are too many.
template <class Wanted>
std::vector<Found> find_records(const SampledOperand& operand, unsigned num_threads, Workers& workers,
                                const Wanted& wanted) {
  const MatrixHeader& header = operand.source->header();
  const std::uint64_t stride = operand.stride;
  const std::uint64_t record = input_record_bytes(header.m);
  const std::uint64_t per_run = operand.run_length;
  const std::uint64_t num_runs = (header.num_blocks + per_run * stride - 1) / (per_run * stride);
  std::atomic<std::uint64_t> next{0};
  std::vector<std::vector<Found>> of_worker(num_threads);
  const auto work = [&](unsigned worker) {
    std::vector<Found> list;
    std::vector<std::byte> records(per_run * record);
    std::vector<Found> found(per_run);
    for (std::uint64_t run = next++; run < num_runs; run = next++) {
      // Somewhere in its part of the file: a fixed place could always meet the same part of a pattern, or of the
      // other operand.
      const std::uint64_t shift = mixed(run + operand.seed) % stride;
      const std::uint64_t first = (run * stride + shift) * per_run;
      if (first >= header.num_blocks) continue;
      const std::uint64_t count = std::min<std::uint64_t>(per_run, header.num_blocks - first);
      operand.source->read(first, count, records.data());
      std::size_t num_found = 0;
      for (std::uint64_t x = 0; x < count; ++x) {
        const BlockIndex at = read_index(records.data() + x * record);
        if (at.i >= header.blocks_per_side() || at.j >= header.blocks_per_side()) continue;
        found[num_found] = {at, static_cast<std::uint32_t>(run)};
        num_found += wanted(at) ? 1 : 0;  // no branch, which would often be mispredicted
      }
      if (list.size() > kMostFound) break;
      list.insert(list.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(num_found));
    }
    of_worker[worker] = std::move(list);
  };
  const std::uint64_t useful_threads = num_runs / (stride == 1 ? 1 : 16) + 1;
  workers.run(static_cast<unsigned>(std::min<std::uint64_t>(useful_threads, num_threads)), work);
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

/// Random pairs, and what they share with others.
class PairPicks {
 public:
  /// Picks each of num_pairs pairs of the sampled records with the same probability, about num_picks of them.
  PairPicks(const SampledOperand& a, const SampledOperand& b, const std::vector<std::uint32_t>& b_blocks,
            double num_pairs, double num_picks)
      : nb_(a.source->header().blocks_per_side()),
        tile_width_(plan::sums_in_tiles(a.source->header().m) ? plan::tile_blocks(a.source->header().m) : 0),
        rows_(nb_),
        columns_(nb_),
        inner_(nb_) {
    const auto picks_of = [&](BlockIndex at) {
      const double expected = b_blocks[at.j] * num_picks / num_pairs;
      return static_cast<std::uint32_t>(expected + static_cast<double>(mixed(at)) * 0x1p-64);
    };
    std::vector<Found> of_a;
    std::vector<bool> wanted(nb_);
    for (const Found& one : a.records) {
      if (picks_of(one.at) == 0) continue;
      of_a.push_back(one);
      wanted[one.at.j] = true;
    }
    std::vector<Found> of_b;
    std::copy_if(b.records.begin(), b.records.end(), std::back_inserter(of_b),
                 [&](const Found& one) { return wanted[one.at.i]; });
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
  }

  /// Leaves as many picks as may be looked up: of some picks' meetings follows how many that are.
  void limit(const SampledOperand& a, const SampledOperand& b, double most_meetings) {
    mark((picks_.size() + kFewPicks - 1) / kFewPicks);
    const auto all = static_cast<double>(picks_.size());
    const double few = std::min(static_cast<double>(kFewPicks), all);
    double meetings = 1 - few;  // with others than themselves
    visit_meetings(a.records, b.records, [&](const Found&, const Found&) { ++meetings; });
    meetings = std::max(1.0, meetings);
    const double num = few * std::sqrt(most_meetings / meetings);
    const auto step = static_cast<std::size_t>(std::max(1.0, std::ceil(all / std::max(1.0, num))));
    std::size_t left = 0;
    for (std::size_t x = 0; x < picks_.size(); x += step) picks_[left++] = picks_[x];
    picks_.resize(left);
    mark(1);
    pairs_.resize(left);
    blocks_.resize(left);
  }

  /// Whether a record may meet a pick.
  [[nodiscard]] bool wants_of_a(BlockIndex at) const { return rows_[at.i]; }
  [[nodiscard]] bool wants_of_b(BlockIndex at) const { return columns_[at.j] || inner_[at.i]; }

  [[nodiscard]] bool empty() const { return picks_.empty(); }

  /// C blocks for each pair, and tiles of B that blocks of A meet: the mean over picks of what one of them brings.
  [[nodiscard]] double c_blocks_each() const { return mean_share(pairs_); }
  [[nodiscard]] double tiles_each() const { return mean_share(blocks_); }
  /// The same from the mean of what picks share, with one more than was found, which stands for so many: a sample may
  /// miss it.
  [[nodiscard]] double least_c_blocks_each(std::uint64_t stands_for) const { return share_of_mean(pairs_, stands_for); }
  [[nodiscard]] double least_tiles_each(std::uint64_t stands_for) const { return share_of_mean(blocks_, stands_for); }
  /// Between both: from mean and variance of what picks share.
  [[nodiscard]] double likely_c_blocks_each(std::uint64_t stands_for) const {
    return std::clamp(log_normal_share(pairs_, stands_for), least_c_blocks_each(stands_for), c_blocks_each());
  }
  [[nodiscard]] double likely_tiles_each(std::uint64_t stands_for) const {
    return std::clamp(log_normal_share(blocks_, stands_for), least_tiles_each(stands_for), tiles_each());
  }

  /// Counts what meets the picks among these records, one in `stride` each, of which the picks were chosen or which
  /// were read in other runs than those.
  void count(const SampledOperand& of_a, const SampledOperand& of_b, bool has_picks) {
    const auto stands_for = [&](const Found& one, const SampledOperand& among, const Found& picked) {
      return has_picks && one.run == picked.run ? 1 : among.stride;  // read together with the pick: for certain
    };
    visit_meetings(of_a.records, of_b.records, [&](const Found& a, const Found& b) {
      count_pair(a, b, [&](const Pick& pick) { return stands_for(a, of_a, pick.a) * stands_for(b, of_b, pick.b); });
    });
    for (const Found& one : of_b.records) {
      if (inner_[one.at.i]) count_blocks(one, [&](const Pick& pick) { return stands_for(one, of_b, pick.b); });
    }
  }

 private:
  /// Marks rows and columns of one pick in `step`.
  void mark(std::size_t step) {
    for (std::vector<bool>* marks : {&rows_, &columns_, &inner_}) std::fill(marks->begin(), marks->end(), false);
    for (std::size_t x = 0; x < picks_.size(); x += std::max<std::size_t>(1, step)) {
      rows_[picks_[x].a.at.i] = columns_[picks_[x].b.at.j] = true;
      inner_[picks_[x].b.at.i] = tile_width_ != 0;
    }
  }

  /// Calls visit(a, b) for the pairs in marked rows and columns.
  template <class Visit>
  void visit_meetings(const std::vector<Found>& of_a, const std::vector<Found>& of_b, const Visit& visit) const {
    std::vector<Found> in_rows;  // by column
    std::vector<bool> has_column(nb_);
    for (const Found& one : of_a) {
      if (!rows_[one.at.i]) continue;
      in_rows.push_back(one);
      has_column[one.at.j] = true;
    }
    const auto by_column = [](const Found& x, const Found& y) { return x.at.j < y.at.j; };
    std::sort(in_rows.begin(), in_rows.end(), by_column);
    for (const Found& b : of_b) {
      if (!columns_[b.at.j] || !has_column[b.at.i]) continue;
      const Found wanted{{0, b.at.i}, 0};
      for (auto a = std::lower_bound(in_rows.begin(), in_rows.end(), wanted, by_column);
           a != in_rows.end() && a->at.j == b.at.i; ++a) {
        visit(*a, b);
      }
    }
  }

  /// A pair of a picked row with a block of a picked column, and for how many it stands.
  template <class StandsFor>
  void count_pair(const Found& a, const Found& b, const StandsFor& stands_for) {
    auto pick = std::lower_bound(picks_.begin(), picks_.end(), Pick{.a = a, .b = b}, by_place);
    for (; pick != picks_.end() && pick->a.at.i == a.at.i && pick->b.at.j == b.at.j; ++pick) {
      if (pick->a.at.j == b.at.i) continue;
      pairs_[static_cast<std::size_t>(pick - picks_.begin())] += stands_for(*pick);
    }
  }

  /// Another block of B in the tile of a pick.
  template <class StandsFor>
  void count_blocks(const Found& b, const StandsFor& stands_for) {
    const std::uint32_t tile = b.at.j / tile_width_;
    auto pick = std::lower_bound(picks_.begin(), picks_.end(), tile * tile_width_,
                                 [](const Pick& x, std::uint32_t column) { return x.b.at.j < column; });
    for (; pick != picks_.end() && pick->b.at.j / tile_width_ == tile; ++pick) {
      if (pick->b.at.i != b.at.i || pick->b.at.j == b.at.j) continue;
      blocks_[static_cast<std::size_t>(pick - picks_.begin())] += stands_for(*pick);
    }
  }

  static double mean_share(const std::vector<std::uint64_t>& shared) {
    double sum = 0;
    for (const std::uint64_t others : shared) sum += 1 / (1 + static_cast<double>(others));
    return sum / static_cast<double>(shared.size());
  }
  static double share_of_mean(const std::vector<std::uint64_t>& shared, std::uint64_t missed) {
    auto sum = static_cast<double>(missed);
    for (const std::uint64_t others : shared) sum += 1 + static_cast<double>(others);
    return static_cast<double>(shared.size()) / sum;
  }

  /// The mean of 1 / x, for x with a log-normal distribution. What is found varies in addition by chance: of each share
  /// one in so many.
  static double log_normal_share(const std::vector<std::uint64_t>& shared, std::uint64_t stands_for) {
    const auto count = static_cast<double>(shared.size());
    const auto missed = static_cast<double>(stands_for);
    const double mean = (std::accumulate(shared.begin(), shared.end(), 0.0) + missed) / count;
    double squares = 0;
    for (const std::uint64_t others : shared) squares += std::pow(static_cast<double>(others) - mean, 2);
    const double variance = std::max(0.0, squares / count - (missed - 1) * mean);
    return (1 + variance / std::pow(1 + mean, 2)) / (1 + mean);
  }

  std::uint32_t nb_;
  std::uint32_t tile_width_;  // in blocks; 0 = B is not taken apart into tiles
  std::vector<bool> rows_;    // [nb], of picks
  std::vector<bool> columns_;
  std::vector<bool> inner_;
  std::vector<Pick> picks_;            // by_place
  std::vector<std::uint64_t> pairs_;   // [picks], other pairs of the same C block
  std::vector<std::uint64_t> blocks_;  // [picks], other blocks of B in the same tile
};

}  // namespace

SampledProduct::SampledProduct(const ProductOperands& operands, unsigned num_threads, Workers& workers,
                               std::uint64_t most_records)
    : statistics_(operands.expected()),
      a_(sampled(operands.inputs().a, 1, most_records)),
      b_(sampled(operands.inputs().b, std::uint64_t{1} << 32, most_records)),
      num_threads_(std::max(1U, num_threads)),
      workers_(workers),
      b_blocks_(statistics_.nb()) {
  plan::Statistics& s = statistics_;
  for (SampledOperand* one : {&a_, &b_}) {
    one->records = find_records(*one, num_threads_, workers, [](BlockIndex) { return true; });
  }
  for (const Found& one : b_.records) ++b_blocks_[one.at.i];
  for (const Found& one : a_.records) sampled_pairs_ += b_blocks_[one.at.j];
  const double evenly_spread = std::max(1.0, s.num_pairs);
  const auto weight = [](const SampledOperand& one) {
    return one.source->header().num_blocks / std::max(1.0, static_cast<double>(one.records.size()));
  };
  s.num_pairs = sampled_pairs_ * weight(a_) * weight(b_);
  s.tile_pairs *= s.num_pairs / evenly_spread;
  s.num_c_blocks = std::min(s.num_c_blocks, s.num_pairs);
  s.likely_c_blocks = s.num_c_blocks;
}

plan::Statistics SampledProduct::with_shares(double c_blocks_each, double tiles_each) const {
  plan::Statistics s = statistics_;
  const double nb = s.nb();
  s.num_c_blocks = std::clamp(s.num_pairs * c_blocks_each, 1.0, nb * nb);
  s.likely_c_blocks = s.num_c_blocks;
  if (plan::sums_in_tiles(s.m())) s.tile_pairs = s.num_pairs * tiles_each;
  return s;
}

/// One meeting more than was found stands for as many as there are for each that is read.
template <class Picks>
SampledProduct::CBlocks SampledProduct::ends(const Picks& picks, std::uint64_t a_stride, std::uint64_t b_stride) const {
  const plan::Statistics most = with_shares(picks.c_blocks_each(), picks.tiles_each());
  if (a_stride == 1 && b_stride == 1) return {most, most, most};
  const std::uint64_t stands_for = a_stride * b_stride;
  return {.fewest = with_shares(picks.least_c_blocks_each(stands_for), picks.least_tiles_each(b_stride)),
          .likely = with_shares(picks.likely_c_blocks_each(stands_for), picks.likely_tiles_each(b_stride)),
          .most = most};
}

SampledProduct::CBlocks SampledProduct::sample_c_blocks() const {
  if (sampled_pairs_ == 0) return {statistics_, statistics_, statistics_};
  PairPicks picks(a_, b_, b_blocks_, sampled_pairs_, kMostPicks);
  picks.limit(a_, b_, kMostMeetings);
  if (picks.empty()) return {statistics_, statistics_, statistics_};
  picks.count(a_, b_, true);
  return ends(picks, a_.stride, b_.stride);
}

SampledProduct::CBlocks SampledProduct::count_c_blocks(std::uint64_t stride) const {
  if (sampled_pairs_ == 0) return {statistics_, statistics_, statistics_};
  // All records: a mean within 5 %; of a part of them, what is not found matters more than the mean.
  PairPicks picks(a_, b_, b_blocks_, sampled_pairs_, stride == 1 ? kCountedPicks : kMostPicks);
  picks.limit(a_, b_,
              kCountedMeetings * static_cast<double>(stride * stride) / static_cast<double>(a_.stride * b_.stride));
  SampledOperand a = again(a_, stride);
  SampledOperand b = again(b_, stride);
  a.records = find_records(a, num_threads_, workers_, [&](BlockIndex at) { return picks.wants_of_a(at); });
  b.records = find_records(b, num_threads_, workers_, [&](BlockIndex at) { return picks.wants_of_b(at); });
  if (picks.empty() || a.records.empty() || b.records.empty()) return {statistics_, statistics_, statistics_};
  picks.count(a, b, false);
  return ends(picks, stride, stride);
}

}  // namespace spmm
