// Pairs from sampled indices, and C blocks from a few random pairs: a C block with x pairs is met by each of them, so
// the mean of 1/x over all pairs is the number of C blocks for each pair.
#include "engine/sampled_product.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "base/records/head.hpp"
#include "base/run/parallel.hpp"
#include "plan/models/run_models.hpp"
#include "plan/panels/tiles.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kRunBytes = 4u << 10;       // of records that are read together: half of it takes as long
constexpr std::uint64_t kLongRunBytes = 64u << 10;  // if all are read
constexpr std::uint64_t kFirstRunLength = 32;       // records; of few records, more runs tell more
constexpr std::uint64_t kWholeBytes = 1u << 20;     // of no more than this, all records are read
constexpr std::uint64_t kUsualStride = 16;          // one run in so many is read, of records that are few but long
constexpr std::uint64_t kFewRecords = 1u << 13;     // of larger ones so many are, or
constexpr std::uint64_t kSampledShare = 128;        // one in so many, if that is more
constexpr double kMostPicks = 2'048;                // random pairs
constexpr double kCountedPicks = 512;               // if all records are examined: a mean within 5 %
constexpr double kMostExamined = 4e5;               // records in rows and columns of picks, for each of which they lie
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

/// Some rows or columns, numbered.
class Marks {
 public:
  explicit Marks(std::uint32_t nb) : bits_(nb / 64 + 1), before_(bits_.size() + 1) {}
  void add(std::uint32_t x) { bits_[x / 64] |= bit(x); }
  /// After the last add().
  void number() {
    for (std::size_t x = 0; x < bits_.size(); ++x) {
      before_[x + 1] = before_[x] + static_cast<std::uint32_t>(std::popcount(bits_[x]));
    }
  }
  [[nodiscard]] bool has(std::uint32_t x) const { return (bits_[x / 64] & bit(x)) != 0; }
  [[nodiscard]] std::uint32_t number_of(std::uint32_t x) const {
    return before_[x / 64] + static_cast<std::uint32_t>(std::popcount(bits_[x / 64] & (bit(x) - 1)));
  }
  [[nodiscard]] std::uint32_t size() const { return before_.back(); }

 private:
  static std::uint64_t bit(std::uint32_t x) { return std::uint64_t{1} << x % 64; }

  std::vector<std::uint64_t> bits_;
  std::vector<std::uint32_t> before_;  // marks in front of each word
};

/// The records in marked rows or columns, one row or column after the other.
class Groups {
 public:
  Groups(const std::vector<Found>& records, const Marks& marks, std::uint32_t BlockIndex::*key)
      : marks_(marks), ends_(marks.size() + 1) {
    for (const Found& one : records) {
      if (marks.has(one.at.*key)) ++ends_[marks.number_of(one.at.*key) + 1];
    }
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    records_.resize(ends_.back());
    std::vector<std::size_t> next = ends_;
    for (const Found& one : records) {
      if (marks.has(one.at.*key)) records_[next[marks.number_of(one.at.*key)]++] = one;
    }
  }
  /// Values: x is marked.
  [[nodiscard]] std::span<const Found> of(std::uint32_t x) const {
    const std::uint32_t number = marks_.number_of(x);
    return std::span(records_).subspan(ends_[number], ends_[number + 1] - ends_[number]);
  }

 private:
  const Marks& marks_;
  std::vector<std::size_t> ends_;
  std::vector<Found> records_;
};

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
        marks_(nb_) {
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

  /// Leaves as many picks as may be looked up among records of which one in `least_stride` is read.
  void limit(const SampledOperand& a, const SampledOperand& b, double least_stride) {
    mark();
    const PickedRecords among(a, b, marks_);
    double examined = 0;
    for (const Pick& pick : picks_) {
      examined += static_cast<double>(among.row(pick).size() + among.column(pick).size() + among.inner(pick).size());
    }
    examined *= static_cast<double>(std::min(a.stride, b.stride)) / least_stride;
    const auto step = static_cast<std::size_t>(std::max(1.0, std::ceil(examined / kMostExamined)));
    std::size_t left = 0;
    for (std::size_t x = 0; x < picks_.size(); x += step) picks_[left++] = picks_[x];
    picks_.resize(left);
    mark();
    pairs_.resize(left);
    blocks_.resize(left);
  }

  /// Whether a record may meet a pick.
  [[nodiscard]] bool wants_of_a(BlockIndex at) const { return marks_.rows.has(at.i); }
  [[nodiscard]] bool wants_of_b(BlockIndex at) const { return marks_.columns.has(at.j) || marks_.inner.has(at.i); }

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
  void count(const SampledOperand& of_a, const SampledOperand& of_b, bool has_picks, unsigned num_threads,
             Workers& workers) {
    const auto stands_for = [&](const Found& one, const SampledOperand& among, const Found& picked) {
      return has_picks && one.run == picked.run ? 1 : among.stride;  // read together with the pick: for certain
    };
    const PickedRecords among(of_a, of_b, marks_);
    parallel_for(workers, num_threads, picks_.size(), picks_.size() / (4 * num_threads) + 1,
                 [&](std::uint64_t begin, std::uint64_t end) {
                   std::vector<bool> in_row(nb_);
                   for (std::uint64_t x = begin; x < end; ++x) {
                     const Pick& pick = picks_[x];
                     const std::span<const Found> row = among.row(pick);
                     for (const Found& a : row) in_row[a.at.j] = a.at.j != pick.a.at.j;
                     for (const Found& b : among.column(pick)) {
                       if (!in_row[b.at.i]) continue;
                       const auto a =
                           std::find_if(row.begin(), row.end(), [&](const Found& one) { return one.at.j == b.at.i; });
                       pairs_[x] += stands_for(*a, of_a, pick.a) * stands_for(b, of_b, pick.b);
                     }
                     for (const Found& a : row) in_row[a.at.j] = false;
                     for (const Found& b : among.inner(pick)) {
                       if (b.at.j / tile_width_ != pick.b.at.j / tile_width_ || b.at.j == pick.b.at.j) continue;
                       blocks_[x] += stands_for(b, of_b, pick.b);
                     }
                   }
                 });
  }

 private:
  struct PickMarks {
    explicit PickMarks(std::uint32_t nb) : rows(nb), columns(nb), inner(nb) {}
    Marks rows;
    Marks columns;
    Marks inner;  ///< rows of B of which tiles are counted
  };

  /// Records in rows and columns of picks.
  class PickedRecords {
   public:
    PickedRecords(const SampledOperand& a, const SampledOperand& b, const PickMarks& marks)
        : rows_(a.records, marks.rows, &BlockIndex::i),
          columns_(b.records, marks.columns, &BlockIndex::j),
          inner_(b.records, marks.inner, &BlockIndex::i),
          has_inner_(marks.inner.size() != 0) {}
    [[nodiscard]] std::span<const Found> row(const Pick& pick) const { return rows_.of(pick.a.at.i); }
    [[nodiscard]] std::span<const Found> column(const Pick& pick) const { return columns_.of(pick.b.at.j); }
    [[nodiscard]] std::span<const Found> inner(const Pick& pick) const {
      return has_inner_ ? inner_.of(pick.b.at.i) : std::span<const Found>{};
    }

   private:
    Groups rows_;
    Groups columns_;
    Groups inner_;
    bool has_inner_;
  };

  void mark() {
    marks_ = PickMarks(nb_);
    for (const Pick& pick : picks_) {
      marks_.rows.add(pick.a.at.i);
      marks_.columns.add(pick.b.at.j);
      if (tile_width_ != 0) marks_.inner.add(pick.b.at.i);
    }
    for (Marks* one : {&marks_.rows, &marks_.columns, &marks_.inner}) one->number();
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
  PickMarks marks_;
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
  s.sampled = true;
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
  picks.limit(a_, b_, static_cast<double>(least_stride()));
  if (picks.empty()) return {statistics_, statistics_, statistics_};
  picks.count(a_, b_, true, num_threads_, workers_);
  return ends(picks, a_.stride, b_.stride);
}

SampledProduct::CBlocks SampledProduct::count_c_blocks(std::uint64_t stride) const {
  if (sampled_pairs_ == 0) return {statistics_, statistics_, statistics_};
  // All records: a mean within 5 %; of a part of them, what is not found matters more than the mean.
  PairPicks picks(a_, b_, b_blocks_, sampled_pairs_, stride == 1 ? kCountedPicks : kMostPicks);
  picks.limit(a_, b_, static_cast<double>(stride));
  SampledOperand a = again(a_, stride);
  SampledOperand b = again(b_, stride);
  a.records = find_records(a, num_threads_, workers_, [&](BlockIndex at) { return picks.wants_of_a(at); });
  b.records = find_records(b, num_threads_, workers_, [&](BlockIndex at) { return picks.wants_of_b(at); });
  if (picks.empty() || a.records.empty() || b.records.empty()) return {statistics_, statistics_, statistics_};
  picks.count(a, b, false, num_threads_, workers_);
  return ends(picks, stride, stride);
}

}  // namespace spmm
