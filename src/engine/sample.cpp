// Pairs from sampled indices, and C blocks from a few random pairs: a C block with x pairs is met by each of them, so
// the mean of 1/x over all pairs is the number of C blocks for each pair.
#include <algorithm>
#include <atomic>
#include <tuple>
#include <utility>
#include <vector>

#include "base/records/head.hpp"
#include "engine/backend_choice.hpp"
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
constexpr double kNumPicks = 512;                   // random pairs: a mean within 5 %
constexpr std::size_t kMostExamined = 1u << 19;     // records in rows and columns of random pairs
constexpr std::uint64_t kMostFound = 4u << 20;      // records in picked rows, of a thread

/// One run in so many of an operand is read.
std::uint64_t sample_stride(const MatrixHeader& header) {
  const auto bytes = static_cast<std::uint64_t>(plan::input_bytes(header));
  const std::uint64_t wanted =
      bytes <= kWholeBytes ? kMostRecords : std::max(kFewRecords, header.num_blocks / kSampledShare);
  return std::max(std::clamp<std::uint64_t>(bytes / kWholeBytes, 1, kUsualStride),
                  header.num_blocks / std::min(wanted, kMostRecords));
}

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBu;
  return x ^ (x >> 31);
}
std::uint64_t mixed(BlockIndex at) {
  return mixed((std::uint64_t{at.i} << 32 | at.j) + 0x9E37'79B9'7F4A'7C15u);
}

/// The records of one run in `stride`, all over a file, with wanted(index), in any order; nothing if there are too
/// many. Values: seed = where the runs lie: two operands in the same order meet too often in the same runs.
template <class Wanted>
std::vector<BlockIndex> find_records(const Source& source, std::uint64_t seed, std::uint64_t stride,
                                     unsigned num_threads, Workers& workers, const Wanted& wanted) {
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const std::uint64_t run_bytes = stride == 1 ? kLongRunBytes : std::min(kRunBytes, kFirstRunLength * record);
  const std::uint64_t per_run = std::max<std::uint64_t>(1, run_bytes / record);
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
      const std::uint64_t first = (run * stride + mixed(run + seed) % stride) * per_run;
      if (first >= header.num_blocks) continue;
      const std::uint64_t count = std::min<std::uint64_t>(per_run, header.num_blocks - first);
      source.read(first, count, records.data());
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

/// Picks each pair of the sampled records with the same probability, about kNumPicks of them, in random order. Shapes:
/// b_blocks [nb], sampled records of B in each row; of_b is sorted.
std::vector<Pick> random_pairs(const std::vector<BlockIndex>& of_a, std::vector<BlockIndex> of_b,
                               const std::vector<std::uint32_t>& b_blocks, double num_pairs) {
  std::sort(of_b.begin(), of_b.end());  // threads find them in any order
  std::vector<Pick> picks;
  for (const BlockIndex at : of_a) {
    const double expected = b_blocks[at.j] * kNumPicks / num_pairs + static_cast<double>(mixed(at)) * 0x1p-64;
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

/// The mean of 1 / pairs of the C blocks of picks, as many as may be examined. Values: `rows`, of A, by row, then
/// column; `columns`, of B, transposed and likewise.
double c_blocks_each(const std::vector<Pick>& picks, const std::vector<BlockIndex>& rows,
                     const std::vector<BlockIndex>& columns) {
  double shares = 0;
  double count = 0;
  for (std::size_t examined = 0; count < static_cast<double>(picks.size()) && examined <= kMostExamined; ++count) {
    const Pick& pick = picks[static_cast<std::size_t>(count)];
    auto [a, a_end] = row_of(rows, pick.a.i);
    auto [b, b_end] = row_of(columns, pick.b.j);
    examined += static_cast<std::size_t>(a_end - a) + static_cast<std::size_t>(b_end - b);
    double pairs = 1;
    while (a != a_end && b != b_end) {
      if (a->j == b->j && a->j != pick.a.j) pairs += 1;
      const bool is_less = a->j < b->j;
      if (a->j <= b->j) ++a;
      if (!is_less) ++b;
    }
    shares += 1 / pairs;
  }
  return shares / count;
}

}  // namespace

plan::Counts sampled(const Inputs& inputs, unsigned num_threads, Workers& workers,
                     const std::function<bool(const plan::Counts&)>& wants_c_blocks) {
  plan::Counts s = expected_of(inputs);
  const auto records_of = [&](const Source& source, std::uint64_t seed, std::uint64_t stride, const auto& wanted) {
    return find_records(source, seed, stride, std::max(1U, num_threads), workers, wanted);
  };
  const auto any = [](BlockIndex) { return true; };
  const std::vector<BlockIndex> some_a = records_of(inputs.a, 1, sample_stride(s.a), any);
  const std::vector<BlockIndex> some_b = records_of(inputs.b, std::uint64_t{1} << 32, sample_stride(s.b), any);
  std::vector<std::uint32_t> b_blocks(s.nb());
  for (const BlockIndex at : some_b) ++b_blocks[at.i];
  double sampled_pairs = 0;
  for (const BlockIndex at : some_a) sampled_pairs += b_blocks[at.j];
  const auto weight = [](const MatrixHeader& header, const std::vector<BlockIndex>& records) {
    return header.num_blocks / std::max(1.0, static_cast<double>(records.size()));
  };
  s.num_pairs = sampled_pairs * weight(s.a, some_a) * weight(s.b, some_b);
  s.num_c_blocks = std::min(s.num_c_blocks, s.num_pairs);
  s.sampled = true;
  if (sampled_pairs == 0 || !wants_c_blocks(s)) return s;

  const std::vector<Pick> picks = random_pairs(some_a, some_b, b_blocks, sampled_pairs);
  std::vector<bool> rows(s.nb());
  std::vector<bool> columns(s.nb());
  for (const Pick& pick : picks) rows[pick.a.i] = columns[pick.b.j] = true;
  std::vector<BlockIndex> of_a = records_of(inputs.a, 0, 1, [&](BlockIndex at) { return rows[at.i]; });
  std::vector<BlockIndex> of_b = records_of(inputs.b, 0, 1, [&](BlockIndex at) { return columns[at.j]; });
  if (picks.empty() || of_a.empty() || of_b.empty()) return s;
  for (BlockIndex& at : of_b) std::swap(at.i, at.j);
  std::sort(of_a.begin(), of_a.end());
  std::sort(of_b.begin(), of_b.end());
  const double nb = s.nb();
  s.num_c_blocks = std::clamp(s.num_pairs * c_blocks_each(picks, of_a, of_b), 1.0, nb * nb);
  return s;
}

}  // namespace spmm
