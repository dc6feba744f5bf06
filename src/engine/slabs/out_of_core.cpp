// Slab by slab: the sizes of slabs, their products, and the results that wait to be merged.
#include "engine/slabs/out_of_core.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/records/errors.hpp"
#include "engine/slabs/cut.hpp"
#include "engine/slabs/needed_rows.hpp"
#include "engine/slabs/sorted_product.hpp"
#include "engine/slabs/streams.hpp"
#include "io/files/scratch_file.hpp"

namespace spmm {
namespace {

using namespace slabs;

/// One product, slab by slab.
class SlabProduct {
 public:
  SlabProduct(const Inputs& inputs, Sink& sink, const MultiplyAtOnce& multiply_at_once, const Run& run)
      : inputs_(inputs),
        sink_(sink),
        multiply_at_once_(multiply_at_once),
        run_(run),
        a_lists_(lists_of_a(inputs.a, plan::num_row_groups(inputs.b.header()), run)),
        a_counts_(count_buckets(a_lists_.buckets, run)),
        b_counts_(count_b(inputs.b, plan::num_row_groups(inputs.b.header()), run)) {}

  /// Sets the sizes of all slabs.
  void count_slabs(plan::Statistics& statistics) const {
    const auto timing = run_.clock.scope(Stage::count);
    for (auto* sizes : {&statistics.a_slab_blocks, &statistics.b_slab_blocks, &statistics.needed_b_blocks}) {
      sizes->clear();
    }
    for (const std::uint32_t count : plan::kSlabCounts) {
      const std::vector<Slab> slabs_of_a = cut_slabs(a_counts_, 0, kNumBuckets, count);
      const NeededRows needed = needed_rows(a_lists_, b_counts_, slabs_of_a, run_);
      statistics.a_slab_blocks.push_back(largest(slabs_of_a));
      statistics.b_slab_blocks.push_back(largest(cut_slabs(b_counts_.of_columns, 0, kNumBuckets, count)));
      statistics.needed_b_blocks.push_back(*std::max_element(needed.num_blocks.begin(), needed.num_blocks.end()));
    }
  }

  /// Runs an execution in slabs; leaves the last exact one in it.
  ProductStats multiply(plan::Execution& execution) {
    const std::vector<Slab> slabs_of_a = cut_slabs(a_counts_, 0, kNumBuckets, execution.num_a_slabs);
    if (execution.num_b_slabs == 1) {
      multiply_needed_rows(slabs_of_a, execution);
    } else {
      multiply_slabs_of_b(slabs_of_a, execution);
    }
    adopt_last(std::move(last_), execution);
    return total_;
  }

 private:
  /// Every slab of A by the block rows of B that it needs: nothing is left to be merged.
  void multiply_needed_rows(const std::vector<Slab>& slabs_of_a, const plan::Execution& execution) {
    const NeededRows needed = needed_rows(a_lists_, b_counts_, slabs_of_a, run_);
    a_lists_.groups = {};
    const AlignedArray<std::uint32_t> groups = groups_of(inputs_.b, needed.slabs.size(), run_);
    for (std::uint32_t s = 0; s < slabs_of_a.size(); ++s) {
      const SlabSource a(inputs_.a, a_lists_.buckets, slabs_of_a[s], run_);
      const SlabSource b(inputs_.b, needed_records(inputs_.b, needed, s, groups, run_), run_);
      add(multiply_slabs({a, b}, sink_, execution));
    }
  }

  void multiply_slabs_of_b(const std::vector<Slab>& slabs_of_a, const plan::Execution& execution) {
    a_lists_.groups = {};
    b_counts_.of_groups = {};
    const AlignedArray<std::uint16_t> b_buckets = buckets_of(inputs_.b, Along::columns, run_);
    for (const Slab& slab : cut_slabs(b_counts_.of_columns, 0, kNumBuckets, execution.num_b_slabs)) {
      b_slabs_.push_back(std::make_unique<SlabSource>(inputs_.b, b_buckets, slab, run_));
    }
    for (const Slab& slab : slabs_of_a) multiply_slab_of_a(slab, execution);
  }

  void multiply_slab_of_a(const Slab& slab, const plan::Execution& execution) {
    if (try_slab_of_a(slab, execution)) return;
    const auto parts = std::count_if(a_counts_.begin() + slab.begin, a_counts_.begin() + slab.end,
                                     [](std::uint64_t blocks) { return blocks > 0; });
    if (parts < 2) {
      throw OutOfMemory("host memory", "the result of a few block rows does not fit half of the limit",
                        "raise EngineOptions::memory_limit_bytes, or run on a machine with more memory");
    }
    for (const Slab& half : cut_slabs(a_counts_, slab.begin, slab.end, 2)) multiply_slab_of_a(half, execution);
  }

  /// False if several slabs of B give more results than may be kept; nothing has reached the sink then.
  bool try_slab_of_a(const Slab& slab, const plan::Execution& execution) {
    const SlabSource a(inputs_.a, a_lists_.buckets, slab, run_);
    if (b_slabs_.size() == 1) {
      add(multiply_slabs({a, *b_slabs_.front()}, sink_, execution));
      return true;
    }
    std::uint64_t left_bytes = execution.kept_bytes;
    std::deque<KeepingSink> results;
    std::vector<ProductStats> stats;
    try {
      for (const auto& b : b_slabs_) {
        results.emplace_back(left_bytes, output_record_bytes(a.header().m));
        stats.push_back(multiply_slabs({a, *b}, results.back(), execution));
      }
    } catch (const SlabResultTooLarge&) {
      return false;
    }
    for (const ProductStats& one : stats) add(one);
    merge_rows(results, a.header().m, sink_, run_);
    return true;
  }

  ProductStats multiply_slabs(const Inputs& slabs, Sink& sink, const plan::Execution& execution) {
    last_ = execution;
    return multiply_at_once_(slabs, sink, last_);
  }

  void add(const ProductStats& one) { add_slab(one, total_); }

  Inputs inputs_;
  Sink& sink_;
  const MultiplyAtOnce& multiply_at_once_;
  const Run& run_;
  ListsOfA a_lists_;
  std::vector<std::uint64_t> a_counts_;
  CountsOfB b_counts_;
  std::vector<std::unique_ptr<SlabSource>> b_slabs_;
  ProductStats total_;
  plan::Execution last_;
};

}  // namespace

void add_slab(const ProductStats& one, ProductStats& total) {
  const ProductStats before = total;
  total = one;
  total.num_blocks += before.num_blocks;
  check_num_output_blocks(total.num_blocks);
  total.pairs += before.pairs;
  total.num_panels += before.num_panels;
  total.num_saturated += before.num_saturated;
  total.peak_device_bytes = std::max(one.peak_device_bytes, before.peak_device_bytes);
}

void adopt_last(plan::Execution last, plan::Execution& whole) {
  last.num_a_slabs = whole.num_a_slabs;
  last.num_b_slabs = whole.num_b_slabs;
  last.scratch_bytes = whole.scratch_bytes;
  last.why_no_scratch = whole.why_no_scratch;
  last.kept_bytes = whole.kept_bytes;
  last.slab_limits = whole.slab_limits;
  last.host_limit_bytes = whole.host_limit_bytes;
  last.host_need_bytes = whole.host_need_bytes;
  last.device_need_bytes = std::max(whole.device_need_bytes, last.device_need_bytes);
  last.predicted_s = whole.predicted_s;
  last.predicted_cuda_s = whole.predicted_cuda_s;
  last.predicted_cpu_s = whole.predicted_cpu_s;
  whole = std::move(last);
}

plan::Statistics expected_statistics(const Inputs& inputs) {
  plan::Statistics statistics = plan::expected_statistics(inputs.a.header(), inputs.b.header(), inputs.num_rows);
  if (inputs.are_in_memory()) statistics.slab_reads = plan::SlabReads::own;
  return statistics;
}

ProductStats multiply_out_of_core(const Inputs& inputs, Sink& sink, const plan::Decide& decide,
                                  const MultiplyAtOnce& multiply_at_once, const Run& run, plan::Execution& execution) {
  if (!execution.is_in_slabs()) return multiply_at_once(inputs, sink, execution);
  plan::Statistics statistics = expected_statistics(inputs);
  const auto decide_again = [&] {
    const auto timing = run.clock.scope(Stage::budget);
    plan::Execution decided = decide(statistics);
    plan::throw_if_refused(decided);
    decided.why_no_scratch = execution.why_no_scratch;
    if (statistics.slab_reads == plan::SlabReads::own_in_order) decided.scratch_bytes = execution.scratch_bytes;
    execution = std::move(decided);
  };
  // Nothing if the operands are to be sorted first, now that it is known what slabs of them have.
  const auto multiply_slabs = [&](const Inputs& from) -> std::optional<ProductStats> {
    SlabProduct product(from, sink, multiply_at_once, run);
    product.count_slabs(statistics);
    decide_again();
    if (execution.is_sorted_first() && statistics.slab_reads == plan::SlabReads::others_between) return std::nullopt;
    return product.multiply(execution);
  };
  if (!execution.is_sorted_first()) {
    if (const auto stats = multiply_slabs(inputs)) return *stats;
  }
  const std::unique_ptr<ScratchOperands> sorted = sort_operands(inputs, run, execution);
  if (!sorted) {
    statistics.has_no_scratch = true;
    decide_again();
    return multiply_slabs(inputs).value();
  }
  if (execution.is_sorted_by_rows()) return multiply_sorted(*sorted, sink, multiply_at_once, run, execution);
  statistics.slab_reads = plan::SlabReads::own_in_order;
  return multiply_slabs({all_records(sorted->a()), all_records(sorted->b())}).value();
}

}  // namespace spmm
