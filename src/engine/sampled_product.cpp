// Pairs from sampled indices, and C blocks from a few random pairs: a C block with x pairs is met by each of them, so
// the mean of 1/x over all pairs is the number of C blocks for each pair.
#include "engine/sampled_product.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <tuple>
#include <utility>

#include "plan/times.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kRunBytes = 4u << 10;       // of records that are read together: half of it takes as long
constexpr std::uint64_t kLongRunBytes = 64u << 10;  // if all are read
constexpr std::uint64_t kFirstRunLength = 32;       // records; of few records, more runs tell more
constexpr std::uint64_t kWholeBytes = 1u << 20;     // of no more than this, all records are read
constexpr std::uint64_t kMostRecords = 3u << 13;    // of an operand
constexpr std::uint64_t kUsualStride = 16;          // one run in so many is read, of records that are few but long
constexpr std::uint64_t kFewRecords = 1u << 13;     // of larger ones so many are, or
constexpr std::uint64_t kSampledShare = 128;        // one in so many, if that is more
constexpr double kMostPicks = 2'048;                // random pairs
constexpr double kCountedPicks = 512;               // if all records are examined: a mean within 5 %
constexpr std::size_t kMostExamined = 1u << 19;     // records in rows and columns of random pairs
constexpr std::uint64_t kMostFound = 4u << 20;      // records in picked rows, of a thread

/// Which records of an operand are read: short runs of them all over the file, one in `stride`.
SampledOperand sampled(const Source& source, std::uint64_t seed, std::uint64_t stride) {
  const std::uint64_t bytes = stride == 1 ? kLongRunBytes : kRunBytes;
  return {.source = &source,
          .seed = seed,
          .stride = stride,
          .run_length = std::max<std::uint64_t>(1, bytes / input_record_bytes(source.header().m))};
}

SampledOperand sampled_first(const Source& source, std::uint64_t seed) {
  const MatrixHeader& header = source.header();
  const auto bytes = static_cast<std::uint64_t>(plan::input_bytes(header));
  const std::uint64_t least_stride = std::clamp<std::uint64_t>(bytes / kWholeBytes, 1, kUsualStride);
  const std::uint64_t wanted =
      bytes <= kWholeBytes ? kMostRecords : std::max(kFewRecords, header.num_blocks / kSampledShare);
  SampledOperand first =
      sampled(source, seed, std::max(least_stride, header.num_blocks / std::min(wanted, kMostRecords)));
  if (first.stride != 1) first.run_length = std::min(kFirstRunLength, first.run_length);
  return first;
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
std::vector<BlockIndex> find_records(const SampledOperand& operand, unsigned num_threads, Workers& workers,
                                     const Wanted& wanted) {
  const MatrixHeader& header = operand.source->header();
  const std::uint64_t stride = operand.stride;
  const std::uint64_t record = input_record_bytes(header.m);
  const std::uint64_t per_run = operand.run_length;
  const std::uint64_t num_runs = (header.num_blocks + per_run * stride - 1) / (per_run * stride);
  std::atomic<std::uint64_t> next{0};
  std::vector<std::vector<BlockIndex>> of_worker(num_threads);
  const auto work = [&](unsigned worker) {
    std::vector<BlockIndex> list;
    std::vector<std::byte> records(per_run * record);
    std::vector<BlockIndex> found(per_run);
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
        found[num_found] = at;
        num_found += wanted(at) ? 1 : 0;  // no branch, which would often be mispredicted
      }
      if (list.size() > kMostFound) break;
      list.insert(list.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(num_found));
    }
    of_worker[worker] = std::move(list);
  };
  const std::uint64_t useful_threads = num_runs / (stride == 1 ? 1 : 16) + 1;
  workers.run(static_cast<unsigned>(std::min<std::uint64_t>(useful_threads, num_threads)), work);
  std::vector<BlockIndex> all;
  for (const std::vector<BlockIndex>& list : of_worker) all.insert(all.end(), list.begin(), list.end());
  if (all.size() > kMostFound) all.clear();
  return all;
}

/// A random pair: of a block of A and one of B.
struct Pick {
  BlockIndex a;
  BlockIndex b;
};

/// The records of a row among sorted ones.
auto row_of(const std::vector<BlockIndex>& sorted, std::uint32_t i) {
  return std::equal_range(sorted.begin(), sorted.end(), BlockIndex{.i = i, .j = 0},
                          [](BlockIndex x, BlockIndex y) { return x.i < y.i; });
}

/// Picks each pair of the sampled records with the same probability, about num_picks of them, in random order.
std::vector<Pick> random_pairs(const SampledOperand& a, const SampledOperand& b,
                               const std::vector<std::uint32_t>& b_blocks, double num_pairs, double num_picks) {
  std::vector<BlockIndex> of_b = b.records;
  std::sort(of_b.begin(), of_b.end());  // threads find them in any order
  std::vector<Pick> picks;
  for (const BlockIndex at : a.records) {
    const double expected = b_blocks[at.j] * num_picks / num_pairs + static_cast<double>(mixed(at)) * 0x1p-64;
    if (expected < 1) continue;
    const auto [first, last] = row_of(of_b, at.j);
    if (first == last) continue;
    for (auto x = static_cast<std::uint32_t>(expected); x != 0; --x) {
      const std::uint64_t place = mixed(mixed(at) + x) % static_cast<std::uint64_t>(last - first);
      picks.push_back({.a = at, .b = first[static_cast<std::ptrdiff_t>(place)]});
    }
  }
  const auto key = [](const Pick& pick) { return std::tuple(mixed(pick.a), pick.a.i, pick.a.j, pick.b.j); };
  std::sort(picks.begin(), picks.end(), [&](const Pick& x, const Pick& y) { return key(x) < key(y); });
  return picks;
}

/// Other pairs of the C block of each pick, among records in its row of A and its column of B, for as many picks as may
/// be examined. Values: `rows` by row, then column; `columns` transposed and likewise.
std::vector<double> other_pairs(const std::vector<Pick>& picks, const std::vector<BlockIndex>& rows,
                                const std::vector<BlockIndex>& columns, double stands_for) {
  std::vector<double> counts;
  std::size_t examined = 0;
  for (const Pick& pick : picks) {
    if (examined > kMostExamined) break;
    auto [a, a_end] = row_of(rows, pick.a.i);
    auto [b, b_end] = row_of(columns, pick.b.j);
    examined += static_cast<std::size_t>(a_end - a) + static_cast<std::size_t>(b_end - b);
    double count = 0;
    while (a != a_end && b != b_end) {
      if (a->j == b->j && a->j != pick.a.j) count += stands_for;
      const bool is_less = a->j < b->j;
      if (a->j <= b->j) ++a;
      if (!is_less) ++b;
    }
    counts.push_back(count);
  }
  return counts;
}

/// C blocks for each pair, from the other pairs of some C blocks, each found one of which stands for as many. Not all
/// are found: between the mean of 1 / x and 1 / the mean of x, of a log-normal distribution.
double c_blocks_each(const std::vector<double>& others, double stands_for) {
  const auto count = static_cast<double>(others.size());
  double shares = 0, sum = 0, squares = 0;
  for (const double x : others) shares += 1 / (1 + x), sum += x;
  const double most = shares / count;
  if (stands_for == 1) return most;
  const double mean = (sum + stands_for) / count;  // one more than was found: a sample may miss it
  for (const double x : others) squares += (x - mean) * (x - mean);
  const double variance = std::max(0.0, squares / count - (stands_for - 1) * mean);  // less what chance adds
  const double least = std::min(most, 1 / (1 + mean));
  return std::clamp((1 + variance / std::pow(1 + mean, 2)) / (1 + mean), least, most);
}

}  // namespace

SampledProduct::SampledProduct(const ProductOperands& operands, unsigned num_threads, Workers& workers)
    : statistics_(operands.expected()),
      a_(sampled_first(operands.inputs().a, 1)),
      b_(sampled_first(operands.inputs().b, std::uint64_t{1} << 32)),
      num_threads_(std::max(1U, num_threads)),
      workers_(workers),
      b_blocks_(statistics_.nb()) {
  plan::Statistics& s = statistics_;
  for (SampledOperand* one : {&a_, &b_}) {
    one->records = find_records(*one, num_threads_, workers, [](BlockIndex) { return true; });
  }
  for (const BlockIndex at : b_.records) ++b_blocks_[at.i];
  for (const BlockIndex at : a_.records) sampled_pairs_ += b_blocks_[at.j];
  const auto weight = [](const SampledOperand& one) {
    return one.source->header().num_blocks / std::max(1.0, static_cast<double>(one.records.size()));
  };
  s.num_pairs = sampled_pairs_ * weight(a_) * weight(b_);
  s.num_c_blocks = std::min(s.num_c_blocks, s.num_pairs);
  s.sampled = true;
}

plan::Statistics SampledProduct::count_c_blocks(std::uint64_t stride) const {
  if (sampled_pairs_ == 0) return statistics_;
  // All records: a mean within 5 %; of a part of them, what is not found matters more than the mean.
  const std::vector<Pick> picks =
      random_pairs(a_, b_, b_blocks_, sampled_pairs_, stride == 1 ? kCountedPicks : kMostPicks);
  std::vector<bool> rows(b_blocks_.size()), columns(b_blocks_.size());
  for (const Pick& pick : picks) rows[pick.a.i] = columns[pick.b.j] = true;
  // In runs that lie elsewhere.
  std::vector<BlockIndex> of_a = find_records(sampled(*a_.source, ~a_.seed, stride), num_threads_, workers_,
                                              [&](BlockIndex at) { return rows[at.i]; });
  std::vector<BlockIndex> of_b = find_records(sampled(*b_.source, ~b_.seed, stride), num_threads_, workers_,
                                              [&](BlockIndex at) { return columns[at.j]; });
  if (picks.empty() || of_a.empty() || of_b.empty()) return statistics_;
  for (BlockIndex& at : of_b) std::swap(at.i, at.j);
  std::sort(of_a.begin(), of_a.end());
  std::sort(of_b.begin(), of_b.end());
  const auto stands_for = static_cast<double>(stride) * static_cast<double>(stride);
  plan::Statistics s = statistics_;
  const double nb = s.nb();
  s.num_c_blocks =
      std::clamp(s.num_pairs * c_blocks_each(other_pairs(picks, of_a, of_b, stands_for), stands_for), 1.0, nb * nb);
  return s;
}

}  // namespace spmm
