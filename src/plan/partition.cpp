#include "plan/partition.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "plan/models/run_models.hpp"
#include "plan/registry.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {
namespace {

MatrixHeader with_blocks(MatrixHeader header, std::uint64_t num_blocks) {
  header.num_blocks = static_cast<std::uint32_t>(num_blocks);
  return header;
}

/// Blocks of the largest of some slabs.
std::uint64_t largest_slab(const MatrixHeader& header, const std::vector<std::uint64_t>& counted, std::size_t x) {
  const std::uint64_t share = (std::uint64_t{header.num_blocks} + kSlabCounts.at(x) - 1) / kSlabCounts.at(x);
  return counted.empty() ? share : counted.at(x);
}

/// Whether operands may be sorted into a scratch file first.
bool may_sort(const Problem& p) {
  const auto& [whole, limits] = p;
  return limits.has_scratch && !whole.has_no_scratch && whole.slab_reads == SlabReads::others_between;
}

/// At least 1, also for empty operands: 0 stands for no scratch file.
std::uint64_t scratch_bytes(const Statistics& whole) {
  return static_cast<std::uint64_t>(std::max(1.0, input_bytes(whole.a) + input_bytes(whole.b)));
}

/// A division, and whether the results that wait to be merged are expected to fit. They may be smaller than expected,
/// so nothing is refused for that; such a division only comes after all others.
struct Option {
  Execution execution{};
  bool keeps_results = true;
};

bool is_better(const Option& x, const Option& y) {
  const Execution& e = x.execution;
  const Execution& best = y.execution;
  if (e.is_refused() != best.is_refused()) return !e.is_refused();
  if (e.is_refused()) return e.refusal.need_bytes < best.refusal.need_bytes;
  if (x.keeps_results != y.keeps_results) return x.keeps_results;
  return e.predicted_s < best.predicted_s;
}

/// Both operands cut into slabs of about equal size.
class Division {
 public:
  /// Values: a, b = indices of kSlabCounts.
  Division(const Problem& p, std::size_t a, std::size_t b)
      : p_(p),
        whole_(p.s),
        num_a_(kSlabCounts.at(a)),
        num_b_(kSlabCounts.at(b)),
        largest_a_(largest_slab(whole_.a, whole_.a_slab_blocks, a)),
        largest_b_(b != 0 ? largest_slab(whole_.b, whole_.b_slab_blocks, b) : needed_b(a)) {}

  /// The largest product of two slabs.
  [[nodiscard]] Option decide(DecideSlab decide_slab) const {
    constexpr double kMargin = 1.25;  // rows differ; what is larger is cut in halves later, after work in vain
    const std::uint64_t lists = cuts_b() ? slab_list_bytes(whole_.a, whole_.b) : needed_list_bytes(whole_.a, whole_.b);
    const Statistics slabs = slab_statistics();
    Limits limits = p_.limits;
    const std::uint64_t left = limits.host_bytes - std::min(limits.host_bytes, lists);
    const std::uint64_t kept = cuts_b() ? left / 2 : 0;
    limits.host_bytes = left - kept;
    Execution e = decide_slab({slabs, limits});
    e.num_a_slabs = num_a_;
    e.num_b_slabs = num_b_;
    e.kept_bytes = kept;
    e.slab_limits = limits;
    if (e.is_refused()) {
      // What would do: where results are kept, they take the smaller half.
      if (e.refusal.kind == Refusal::Kind::host_memory) {
        const std::uint64_t need = e.refusal.need_bytes;
        e.refusal.need_bytes = (cuts_b() ? 2 * need - 1 : need) + lists;
      }
      return {.execution = std::move(e)};
    }
    e.host_limit_bytes = p_.limits.host_bytes;
    e.host_need_bytes += lists + kept;
    e.predicted_s = total_seconds(e, slabs, whole_.slab_reads);
    if (cuts_b() && may_sort(p_)) {
      const double sorted_s = sort_seconds(p_) + total_seconds(e, slabs, SlabReads::own_in_order);
      if (sorted_s < e.predicted_s) {
        e.scratch_bytes = scratch_bytes(whole_);
        e.predicted_s = sorted_s;
      }
    }
    e.expected_pairs = whole_.num_pairs;
    e.expected_output_blocks = whole_.num_c_blocks;
    e.expected_panels *= std::uint64_t{num_a_} * num_b_;
    const double result_bytes = largest_share() * whole_.num_c_blocks * record_bytes();
    return {.execution = std::move(e),
            .keeps_results = kept == 0 || kMargin * result_bytes <= static_cast<double>(kept)};
  }

 private:
  [[nodiscard]] bool cuts_b() const { return num_b_ > 1; }
  [[nodiscard]] double record_bytes() const { return static_cast<double>(output_record_bytes(whole_.m())); }
  /// The largest slab of A as a share of it.
  [[nodiscard]] double largest_share() const {
    return whole_.a.num_blocks == 0 ? 0 : static_cast<double>(largest_a_) / whole_.a.num_blocks;
  }

  /// Blocks of B in the block rows that a slab of A meets.
  [[nodiscard]] std::uint64_t needed_b(std::size_t a) const {
    if (a == 0) return whole_.b.num_blocks;
    if (!whole_.needed_b_blocks.empty()) return whole_.needed_b_blocks.at(a);
    const double groups = static_cast<double>(num_row_groups(whole_.b));
    const double met = 1 - std::exp(-static_cast<double>(largest_a_) / groups);
    const double even_share = 1.0 / num_a_;  // groups that no block meets are read, too
    return static_cast<std::uint64_t>(std::ceil(whole_.b.num_blocks * std::max(met, even_share)));
  }

  /// The largest product of two slabs. A slab of A with the rows of B that it needs has all of its pairs.
  [[nodiscard]] Statistics slab_statistics() const {
    Statistics slabs = expected_statistics(with_blocks(whole_.a, largest_a_), with_blocks(whole_.b, largest_b_));
    if (cuts_b() || whole_.a.num_blocks == 0) return slabs;
    const double share = largest_share();
    slabs.num_pairs = whole_.num_pairs * share;
    slabs.num_c_blocks = whole_.num_c_blocks * share;
    slabs.tile_pairs = whole_.tile_pairs * share;
    slabs.likely_c_blocks = whole_.likely_c_blocks * share;
    return slabs;
  }

  /// Every slab of A is multiplied by every slab of B, or by what it needs of B; each of these products reads both
  /// slabs, with what lies between their records if it has to, builds them anew and multiplies. Results of several
  /// slabs of B are merged.
  [[nodiscard]] double total_seconds(const Execution& slab, const Statistics& slabs, SlabReads reads) const {
    const Limits& limits = p_.limits;
    const bool reads_own = reads == SlabReads::own || (reads == SlabReads::own_in_order && cuts_b());
    const double between = input_bytes(whole_.a) + input_bytes(whole_.b) - input_bytes(slabs.a) - input_bytes(slabs.b);
    const double all_blocks = static_cast<double>(whole_.num_blocks());
    const double picking = cuts_b() ? pick_seconds(all_blocks, static_cast<double>(slabs.num_blocks())) : 0;
    const double passing = read_seconds(std::max(0.0, between), limits) + picking;
    const double one_s = slab_seconds(slab, {slabs, limits}) + (reads_own ? 0 : passing);
    const double merging = cuts_b() ? merge_seconds(whole_.num_c_blocks * record_bytes()) : 0;
    const double counting = reads_own ? 0 : count_seconds(p_);
    return static_cast<double>(num_a_) * num_b_ * one_s + merging + counting + start_seconds(slab, limits);
  }

  const Problem& p_;
  const Statistics& whole_;
  std::uint32_t num_a_;
  std::uint32_t num_b_;
  std::uint64_t largest_a_;  // blocks of the largest slab
  std::uint64_t largest_b_;
};

/// Slabs of sorted operands: what of B is read for one of them, of which A has the most blocks in addition to that.
class SortedSlabs {
 public:
  /// Values: kernel = that runs all slabs; nothing = the fastest one for each.
  SortedSlabs(const Problem& p, DecideSlab decide_slab, std::optional<KernelId> kernel)
      : p_(p), whole_(p.s), limits_(p.limits), decide_slab_(decide_slab), kernel_(kernel) {
    num_groups_ = num_groups_within(limits_.host_bytes);
    const double rows = std::max(1.0, std::min<double>(whole_.a.num_blocks, whole_.a.blocks_per_side()));
    row_blocks_ = std::max(1.0, whole_.a.num_blocks / rows);
    // Blocks of a row are in different columns: a full row meets everything at once.
    const double filled = std::min(row_blocks_ / whole_.a.blocks_per_side(), kNearlyFull);
    met_per_block_ = -std::log1p(-filled) / filled / num_groups_;
  }

  /// The fastest way. Where most rows do not fit, all are streamed.
  [[nodiscard]] Execution best() const {
    Execution best;
    best.refusal = host_memory_refusal(~std::uint64_t{0});
    const bool is_empty = whole_.a.num_blocks == 0 || whole_.b.num_blocks == 0;  // its other operand is checked
    if (is_empty || !fits(1, 1)) return may_stream() ? streamed() : best;
    constexpr double kStep = 1.08;
    for (double share = 1; share * whole_.b.num_blocks >= 1; share /= kStep) {
      const auto b_blocks = static_cast<std::uint64_t>(share * whole_.b.num_blocks);
      if (!fits(1, b_blocks)) continue;
      const SlabCaps caps{.a_blocks = most_of_a(b_blocks), .b_blocks = b_blocks};
      Execution e = with_caps(caps);
      constexpr double kHopeless = 1.5;  // smaller slabs of B take longer and longer
      if (!e.is_refused() && !best.is_refused() && e.predicted_s > kHopeless * best.predicted_s) break;
      if (e.is_refused() || (!best.is_refused() && e.predicted_s >= best.predicted_s)) continue;
      best = std::move(e);
    }
    if (best.is_refused()) return may_stream() ? streamed() : best;
    if (limits_.backend != Backend::cuda) best.longer_caps = longer_caps(best);
    // A slab that takes longer than its rows streamed is streamed.
    const double streamed_s = sort_seconds(p_) + streamed_whole_seconds(best, best.slab_limits);
    if (may_stream()) best.predicted_s = std::min(best.predicted_s, streamed_s);
    return best;
  }

 private:
  static constexpr double kNearlyFull = 1 - 1e-9;  // of a row

  /// Rows are streamed by what row-merge multiplies blocks with.
  [[nodiscard]] bool may_stream() const {
    return limits_.backend != Backend::cuda && kernel_.value_or(KernelId::row_merge) == KernelId::row_merge;
  }

  [[nodiscard]] std::uint32_t num_groups_within(std::uint64_t limit_bytes) const {
    constexpr std::uint64_t kLeastGroups = 1024;
    constexpr std::uint64_t kLimitPerGroup = 48;  // of which a group takes 4 bytes, and 16 if it is read alone
    const std::uint64_t most = std::max(kLeastGroups, limit_bytes / kLimitPerGroup);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(whole_.b.blocks_per_side(), most));
  }

  /// Bytes with which operands are sorted in parts whose tables take a quarter of them.
  [[nodiscard]] std::uint64_t least_sort_bytes() const {
    constexpr double kTableBytes = 48;  // of a part
    constexpr double kQuarter = 4;
    constexpr double kItemBytes = 16;  // a key and a number
    constexpr double kFilled = 0.6;    // of a part, on average
    const double record = 2 * static_cast<double>(input_record_bytes(whole_.m())) + kItemBytes;
    const double blocks = std::max(whole_.a.num_blocks, whole_.b.num_blocks);
    return static_cast<std::uint64_t>(std::sqrt(kQuarter * kTableBytes * blocks * record / kFilled));
  }

  /// All rows are streamed. Refused if a thread cannot keep one C block, or the operands cannot be sorted.
  [[nodiscard]] Execution streamed() const {
    const SlabCaps none{.a_blocks = 1, .b_blocks = 0};
    Limits enough = limits_;
    enough.host_bytes = ~std::uint64_t{0} / 4;
    enough.kernel = KernelId::row_merge;
    Execution e = decide_slab_({expected(1, 1), enough});
    if (e.is_refused()) return e;
    const Limits limits = slab_limits(none);
    const std::uint64_t lists = sorted_list_bytes(num_groups_, none, limits_);
    const std::uint64_t least = least_streamed_bytes(whole_.a, streamed_rows_limits(limits, limits_.host_bytes));
    if (std::max(lists + least, least_sort_bytes()) > limits_.host_bytes) {
      std::uint64_t need = 0;  // with the groups that are chosen within it
      for (std::uint64_t more = std::max(lists + least, least_sort_bytes()); more > need;) {
        need = more;
        more = sorted_list_bytes(num_groups_within(need), none, limits_) + least;
      }
      e.refusal = host_memory_refusal(need);
      return e;
    }
    e.host_need_bytes = limits_.host_bytes;
    complete(e, none, limits);
    e.num_a_slabs = static_cast<std::uint32_t>(std::clamp(whole_.a.num_blocks / row_blocks_, 2.0, 4e9));
    e.predicted_s = sort_seconds(p_) + streamed_whole_seconds(e, limits);
    return e;
  }

  [[nodiscard]] double streamed_whole_seconds(const Execution& e, const Limits& limits) const {
    const StreamedRowsPlan rows =
        plan_streamed_rows(whole_.a, streamed_rows_limits(limits, limits_.host_bytes), kMostStreamedRows);
    return streamed_seconds(e, {whole_, limits}, static_cast<double>(rows.num_windows));
  }

  /// What all executions have in common.
  void complete(Execution& e, const SlabCaps& caps, const Limits& limits) const {
    e.slab_limits = limits;
    e.slab_limits.kernel = limits_.kernel;
    e.slab_caps = caps;
    e.num_row_groups = num_groups_;
    e.num_b_slabs = 1;
    e.scratch_bytes = scratch_bytes(whole_);
    e.host_limit_bytes = limits_.host_bytes;
    e.expected_pairs = whole_.num_pairs;
    e.expected_output_blocks = whole_.num_c_blocks;
  }

  [[nodiscard]] Limits slab_limits(const SlabCaps& caps) const {
    Limits limits = limits_;
    limits.host_bytes -= std::min(limits.host_bytes, sorted_list_bytes(num_groups_, caps, limits_));
    limits.kernel = kernel_;
    return limits;
  }

  [[nodiscard]] bool fits(std::uint64_t a_blocks, std::uint64_t b_blocks) const {
    const SlabCaps caps{.a_blocks = a_blocks, .b_blocks = b_blocks};
    return !decide_slab_({expected(a_blocks, b_blocks), slab_limits(caps)}).is_refused();
  }

  [[nodiscard]] Statistics expected(std::uint64_t a_blocks, std::uint64_t b_blocks) const {
    Statistics s = expected_statistics(with_blocks(whole_.a, a_blocks), with_blocks(whole_.b, b_blocks));
    s.are_sorted = true;
    return s;
  }

  /// Blocks of A that fit in addition to so many of B. Values: one block fits.
  [[nodiscard]] std::uint64_t most_of_a(std::uint64_t b_blocks) const {
    return most_of_a([&](std::uint64_t a_blocks) { return fits(a_blocks, b_blocks); });
  }
  template <class Fits>
  [[nodiscard]] std::uint64_t most_of_a(const Fits& fits) const {
    if (fits(whole_.a.num_blocks)) return whole_.a.num_blocks;
    std::uint64_t most = 1;
    for (std::uint64_t less = 1, more = whole_.a.num_blocks; more - less > less / 32 + 1;) {
      const std::uint64_t middle = less + (more - less) / 2;
      (fits(middle) ? less : more) = middle;
      most = less;
    }
    return most;
  }

  /// More blocks of A with fewer of B, in the memory that the largest slabs leave, with as many threads.
  [[nodiscard]] std::vector<SlabCaps> longer_caps(const Execution& e) const {
    constexpr std::size_t kMost = 12;
    Limits limits = e.slab_limits;
    limits.kernel = kernel_;
    std::vector<SlabCaps> all;
    for (std::uint64_t b = e.slab_caps.b_blocks * 3 / 4; b != 0 && all.size() < kMost; b = b * 3 / 4) {
      const auto fits_beside = [&](std::uint64_t a_blocks) {
        const Execution longer = decide_slab_({expected(a_blocks, b), limits});
        return !longer.is_refused() && longer.num_threads >= e.num_threads;
      };
      all.push_back({.a_blocks = most_of_a(fits_beside), .b_blocks = b});
    }
    return all;
  }

  /// Blocks of B in the rows that so many blocks of A meet.
  [[nodiscard]] double needed(double a_blocks) const {
    return whole_.b.num_blocks * (1 - std::exp(-a_blocks * met_per_block_));
  }

  /// Ranges of records of B that are read for so many blocks of A: groups, of which neighbours are joined.
  [[nodiscard]] double num_ranges(double a_blocks) const {
    const double missed = std::exp(-a_blocks / num_groups_);
    return num_groups_ * (1 - missed) * missed + 1;
  }

  /// What is expected of slabs that keep these limits; refused where most rows do not and may be streamed.
  [[nodiscard]] Execution with_caps(const SlabCaps& caps) const {
    const double share = static_cast<double>(caps.b_blocks) / whole_.b.num_blocks;
    const double met = share < 1 ? -std::log1p(-share) / met_per_block_ : whole_.a.num_blocks;
    const double most = std::min({static_cast<double>(caps.a_blocks), met, static_cast<double>(whole_.a.num_blocks)});
    const bool fits_rows = most >= row_blocks_ + std::sqrt(row_blocks_);  // rows differ: many would not fit
    if (!fits_rows && may_stream()) {
      Execution none;
      none.refusal = host_memory_refusal(limits_.host_bytes + 1);
      return none;
    }
    const double a_blocks = fits_rows ? most : 1;
    Statistics slabs = expected(static_cast<std::uint64_t>(std::ceil(a_blocks)),
                                std::max<std::uint64_t>(1, static_cast<std::uint64_t>(needed(a_blocks))));
    const double num_slabs = std::max(1.0, whole_.a.num_blocks / std::max(a_blocks, row_blocks_));
    slabs.num_pairs = whole_.num_pairs / num_slabs;
    slabs.num_c_blocks = whole_.num_c_blocks / num_slabs;
    slabs.tile_pairs = whole_.tile_pairs / num_slabs;
    slabs.likely_c_blocks = whole_.likely_c_blocks / num_slabs;
    const Limits limits = slab_limits(caps);
    Execution e = decide_slab_({slabs, limits});
    if (e.is_refused()) return e;
    complete(e, caps, limits);
    e.num_a_slabs = static_cast<std::uint32_t>(std::clamp(num_slabs, 2.0, 4e9));
    e.host_need_bytes += limits_.host_bytes - limits.host_bytes;
    e.predicted_s =
        sort_seconds(p_) + (fits_rows ? num_slabs * sorted_slab_seconds(e, {slabs, limits}, num_ranges(a_blocks))
                                      : streamed_whole_seconds(e, limits));
    e.expected_panels = static_cast<std::uint64_t>(static_cast<double>(e.expected_panels) * num_slabs);
    return e;
  }

  const Problem& p_;
  const Statistics& whole_;
  const Limits& limits_;
  DecideSlab decide_slab_;
  std::optional<KernelId> kernel_;
  std::uint32_t num_groups_ = 1;
  double row_blocks_ = 1;     ///< of a row of A
  double met_per_block_ = 1;  ///< share of B's groups that a block of A meets, of those that no other one has met
};

/// Kernels of the CPU need their own memory: with the most blocks that fit any of them, slabs would run by the one
/// that wants the least, which may take a thousand times as long.
Execution decide_sorted_slabs(const Problem& whole, DecideSlab decide_slab) {
  const Limits& limits = whole.limits;
  if (limits.kernel || limits.backend == Backend::cuda) return SortedSlabs(whole, decide_slab, limits.kernel).best();
  Execution best;
  best.refusal = host_memory_refusal(~std::uint64_t{0});
  for (const KernelRow& kernel : registry()) {
    if (kernel.backend != Backend::cpu || !kernel.is_automatic) continue;
    Execution e = SortedSlabs(whole, decide_slab, kernel.id).best();
    if (is_better({.execution = e}, {.execution = best})) best = std::move(e);
  }
  return best;
}

}  // namespace

std::uint64_t sorted_list_bytes(std::uint32_t num_row_groups, const SlabCaps& caps, const Limits& limits) {
  const std::uint64_t groups = num_row_groups;
  const std::uint64_t begins_and_marks = groups * sizeof(std::uint32_t) + groups / 8;
  constexpr std::uint64_t kPerRange = 2 * sizeof(std::uint32_t) + sizeof(std::uint64_t);
  constexpr std::uint64_t kPerRow = 2 * sizeof(std::uint64_t);
  return begins_and_marks + most_record_ranges(num_row_groups, caps) * kPerRange + kMostStreamedRows * kPerRow +
         (limits.num_threads + std::uint64_t{1}) * sorted_read_bytes(limits.host_bytes);
}

std::uint64_t most_record_ranges(std::uint32_t num_row_groups, const SlabCaps& caps) {
  return std::min({std::uint64_t{num_row_groups} / 2 + 1, caps.a_blocks, caps.b_blocks});
}

std::uint64_t sorted_read_bytes(std::uint64_t limit_bytes) {
  return std::clamp<std::uint64_t>(limit_bytes / 64, 16u << 10, 256u << 10);
}

StreamedRowsLimits streamed_rows_limits(const Limits& limits, std::uint64_t limit_bytes) {
  return {.isa = limits.isa,
          .host_bytes = limits.host_bytes,
          .piece_bytes = sorted_read_bytes(limit_bytes),
          .num_threads = limits.num_threads};
}

std::uint64_t slab_list_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  constexpr std::uint64_t kPerRecord = sizeof(std::uint16_t) + sizeof(std::uint32_t);  // bucket, number in its slab
  return (std::uint64_t{a.num_blocks} + b.num_blocks) * kPerRecord + 2 * kNumBuckets * sizeof(std::uint64_t);
}

std::uint64_t num_row_groups(const MatrixHeader& b) {
  return std::max<std::uint64_t>(1, std::min<std::uint64_t>(b.blocks_per_side(), b.num_blocks / 2));
}

std::uint64_t needed_list_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  constexpr std::uint64_t kPerRecordOfA = sizeof(std::uint16_t) + sizeof(std::uint32_t);  // bucket; group, then number
  constexpr std::uint64_t kPerRecordOfB = 2 * sizeof(std::uint32_t);                      // group, number in its slab
  constexpr std::uint64_t kPerGroup = sizeof(std::uint32_t) + sizeof(std::uint64_t);      // blocks, slabs that read it
  return a.num_blocks * kPerRecordOfA + b.num_blocks * kPerRecordOfB + num_row_groups(b) * kPerGroup +
         2 * kNumBuckets * sizeof(std::uint64_t);
}

Execution decide_slabs(const Problem& whole, DecideSlab decide_slab) {
  Option best;
  best.execution.refusal = host_memory_refusal(~std::uint64_t{0});
  Option best_sorted = best;
  for (std::size_t a = 0; a < kSlabCounts.size(); ++a) {
    for (std::size_t b = 0; b < kSlabCounts.size(); ++b) {
      if (a == 0 && b == 0) continue;
      Option option = Division(whole, a, b).decide(decide_slab);
      if (option.execution.scratch_bytes != 0 && is_better(option, best_sorted)) best_sorted = option;
      if (is_better(option, best)) best = std::move(option);
    }
  }
  if (!may_sort(whole)) return best.execution;
  // Sorted slabs grow until they reach the limit. Others may turn out larger than expected, and nothing fits then.
  const double surer = whole.limits.backend == Backend::cpu ? 1.3 : 1;
  best_sorted.execution.predicted_s /= surer;
  const bool is_surer = !best_sorted.execution.is_refused() && is_better(best_sorted, best);
  best_sorted.execution.predicted_s *= surer;
  if (is_surer) best = std::move(best_sorted);
  Execution sorted = decide_sorted_slabs(whole, decide_slab);
  const bool takes_sorted = !sorted.is_refused() && (best.execution.is_refused() || !best.keeps_results ||
                                                     sorted.predicted_s < surer * best.execution.predicted_s);
  return takes_sorted || is_better({.execution = sorted}, best) ? std::move(sorted) : std::move(best.execution);
}

}  // namespace spmm::plan
