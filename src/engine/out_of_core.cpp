#include "engine/out_of_core.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "base/record_errors.hpp"
#include "engine/slab_cut.hpp"
#include "engine/slab_streams.hpp"

namespace spmm {
namespace {

using namespace slabs;

/// Numbers of bands that are tried.
constexpr std::array<std::uint32_t, 12> kCounts = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

MatrixHeader with_blocks(MatrixHeader header, std::uint64_t num_blocks) {
  header.num_blocks = static_cast<std::uint32_t>(num_blocks);
  return header;
}

/// Bytes of the lists that bands need on the host.
std::uint64_t list_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  constexpr std::uint64_t kPerRecord = sizeof(std::uint16_t) + sizeof(std::uint32_t);
  return (std::uint64_t{a.num_blocks} + b.num_blocks) * kPerRecord + 2 * kNumBuckets * sizeof(std::uint64_t);
}

using Fits = std::function<bool(const BandCounts&)>;

/// The division with the least reading for which `fits` is true; 0 x 0 if there is none. Where B is divided, A has
/// least_a bands or more.
BandCounts choose_bands(const MatrixHeader& a, const MatrixHeader& b, const Fits& fits, std::uint32_t least_a) {
  std::vector<BandCounts> divisions;
  for (const std::uint32_t x : kCounts) {
    for (const std::uint32_t y : kCounts) {
      if (y == 1 || x >= least_a) divisions.push_back({.a = x, .b = y});
    }
  }
  // Every band of A meets every band of B: A is read once per band of B, B once per band of A.
  const auto cost = [&](const BandCounts& d) {
    const std::uint64_t merging = d.b > 1 ? 2 * (std::uint64_t{a.num_blocks} + b.num_blocks) : 0;  // results are kept
    return std::uint64_t{a.num_blocks} * d.b + std::uint64_t{b.num_blocks} * d.a + merging;
  };
  std::sort(divisions.begin(), divisions.end(),
            [&](const BandCounts& x, const BandCounts& y) { return cost(x) < cost(y); });
  const auto found = std::find_if(divisions.begin(), divisions.end(), fits);
  return found == divisions.end() ? BandCounts{.a = 0, .b = 0} : *found;
}

/// Bands of A so that the result of each, which is kept until it is merged, fits beside everything else. Values: for
/// evenly spread blocks, with a margin; what is larger is cut in halves later, after work in vain.
std::uint32_t bands_for_results(const MatrixHeader& a, const Plan& plan) {
  constexpr double kMargin = 1.25;
  const double nb = a.blocks_per_side();
  const double blocks = std::min(plan.expected_output_blocks * plan.a_bands * plan.b_bands, nb * nb);
  const double bytes = kMargin * blocks * static_cast<double>(output_record_bytes(a.m));
  const double bands = std::ceil(bytes / static_cast<double>(plan.host_limit_bytes));
  return static_cast<std::uint32_t>(std::clamp<double>(bands, 1, kCounts.back()));
}

/// The division to take: `fits` leaves the plan of the last one it was asked about in `plan`.
BandCounts divide(const MatrixHeader& a, const MatrixHeader& b, const Fits& fits, const Plan& plan) {
  const BandCounts found = choose_bands(a, b, fits, 1);
  if (found.b <= 1) return found;
  const BandCounts better = choose_bands(a, b, fits, bands_for_results(a, plan));
  if (better.a != 0) return better;
  (void)fits(found);
  return found;
}

/// Plans the largest band of a division; false if it does not fit.
bool try_plan(const MatrixHeader& a, const MatrixHeader& b, const BandCounts& division, std::uint64_t largest_a,
              std::uint64_t largest_b, const PlanBand& plan_band, Plan& plan) {
  try {
    const std::uint64_t reserved = list_bytes(a, b);
    plan = plan_band(with_blocks(a, largest_a), with_blocks(b, largest_b), reserved);
    if (division.b > 1) {  // half of the limit keeps the result of a band of A
      plan = plan_band(with_blocks(a, largest_a), with_blocks(b, largest_b), reserved + plan.host_limit_bytes / 2);
    }
  } catch (const OutOfMemory&) {
    return false;
  }
  plan.a_bands = division.a;
  plan.b_bands = division.b;
  return true;
}

/// One product, band by band.
class BandedProduct {
 public:
  BandedProduct(const Source& a, const Source& b, Sink& sink, const RunBand& run_band, const Run& run)
      : a_(a),
        b_(b),
        sink_(sink),
        run_band_(run_band),
        run_(run),
        a_buckets_(buckets_of(a, Along::rows, run)),
        b_buckets_(buckets_of(b, Along::columns, run)),
        a_counts_(count_buckets(a_buckets_, run)),
        b_counts_(count_buckets(b_buckets_, run)) {}

  /// Blocks of the largest bands of a division.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> largest_bands(const BandCounts& division) const {
    return {largest(cut_slabs(a_counts_, 0, kNumBuckets, division.a)),
            largest(cut_slabs(b_counts_, 0, kNumBuckets, division.b))};
  }

  ProductStats run(const Plan& plan) {
    for (const Slab& band : cut_slabs(b_counts_, 0, kNumBuckets, plan.b_bands)) {
      b_bands_.push_back(std::make_unique<SlabSource>(b_, b_buckets_, band, run_));
    }
    for (const Slab& band : cut_slabs(a_counts_, 0, kNumBuckets, plan.a_bands)) run_band_of_a(band, plan);
    return total_;
  }

 private:
  void run_band_of_a(const Slab& band, const Plan& plan) {
    const SlabSource a(a_, a_buckets_, band, run_);
    if (b_bands_.size() == 1) {
      add(run_band_(a, *b_bands_.front(), sink_, plan));
      return;
    }
    try {
      run_and_merge(a, plan);
    } catch (const SlabResultTooLarge&) {
      const auto parts = std::count_if(a_counts_.begin() + band.begin, a_counts_.begin() + band.end,
                                       [](std::uint64_t blocks) { return blocks > 0; });
      if (parts < 2) {
        throw OutOfMemory("host memory", "the result of a few block rows does not fit half of the limit",
                          "raise --memory-limit, or run on a machine with more memory");
      }
      for (const Slab& half : cut_slabs(a_counts_, band.begin, band.end, 2)) run_band_of_a(half, plan);
    }
  }

  /// Nothing reaches the sink before the whole band of A is computed.
  void run_and_merge(const SlabSource& a, const Plan& plan) {
    std::uint64_t left_bytes = plan.host_limit_bytes;  // the plan itself was made for the other half
    std::deque<KeepingSink> results;
    std::vector<ProductStats> stats;
    for (const auto& b : b_bands_) {
      results.emplace_back(left_bytes, output_record_bytes(a.header().m));
      stats.push_back(run_band_(a, *b, results.back(), plan));
    }
    for (const ProductStats& one : stats) add(one);
    merge_rows(results, a.header().m, sink_, run_);
  }

  void add(const ProductStats& one) {
    const ProductStats before = total_;
    total_ = one;
    total_.num_blocks += before.num_blocks;
    check_num_output_blocks(total_.num_blocks);
    total_.pairs += before.pairs;
    total_.num_panels += before.num_panels;
    total_.peak_device_bytes = std::max(one.peak_device_bytes, before.peak_device_bytes);
  }

  const Source& a_;
  const Source& b_;
  Sink& sink_;
  const RunBand& run_band_;
  const Run& run_;
  AlignedArray<std::uint16_t> a_buckets_;
  AlignedArray<std::uint16_t> b_buckets_;
  std::vector<std::uint64_t> a_counts_;
  std::vector<std::uint64_t> b_counts_;
  std::vector<std::unique_ptr<SlabSource>> b_bands_;
  ProductStats total_;
};

}  // namespace

Plan plan_with_bands(const MatrixHeader& a, const MatrixHeader& b, const PlanBand& plan_band) {
  try {
    return plan_band(a, b, 0);
  } catch (const OutOfMemory&) {
    Plan plan;
    const auto share = [](std::uint64_t blocks, std::uint32_t bands) { return (blocks + bands - 1) / bands; };
    const Fits fits = [&](const BandCounts& d) {
      return try_plan(a, b, d, share(a.num_blocks, d.a), share(b.num_blocks, d.b), plan_band, plan);
    };
    const BandCounts found = divide(a, b, fits, plan);
    if (found.a == 0) throw;
    return plan;
  }
}

ProductStats multiply_with_bands(const Source& a, const Source& b, Sink& sink, const PlanBand& plan_band,
                                 const RunBand& run_band, const Run& run, Plan& plan) {
  plan = plan_with_bands(a.header(), b.header(), plan_band);
  if (plan.a_bands == 1 && plan.b_bands == 1) return run_band(a, b, sink, plan);
  BandedProduct product(a, b, sink, run_band, run);
  const Fits fits = [&](const BandCounts& d) {
    const auto [largest_a, largest_b] = product.largest_bands(d);
    return try_plan(a.header(), b.header(), d, largest_a, largest_b, plan_band, plan);
  };
  const BandCounts found = divide(a.header(), b.header(), fits, plan);
  if (found.a == 0) (void)plan_band(a.header(), b.header(), 0);  // refuses with need and limit
  return product.run(plan);
}

}  // namespace spmm
