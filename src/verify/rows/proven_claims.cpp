// The choice between bounds of whole rows and sums of pairs, and what bounds prove.
#include "verify/rows/proven_claims.hpp"

#include <algorithm>
#include <bit>
#include <chrono>

#include "verify/rows/host_bounds.hpp"

namespace spmm {
namespace {

/// Seconds that the ways are expected to take if nothing ends early, which holds for all of them alike.
struct WaySeconds {
  double pairs = 0;
  double panels = 0;
  double device = 0;
};

// One core of a Xeon with AVX-512, src/HISTORY.md; the device: an H200, kernels/HISTORY.md.
constexpr double kTermsPerSecond = 8e9;   // of exact sums
constexpr double kPairSeconds = 5e-9;     // finding a pair
constexpr double kBlockSeconds = 100e-9;  // a block of an operand, to its place in a panel
constexpr double kDeviceProductsPerSecond = 2e14;
constexpr double kDeviceBytesPerSecond = 8e9;  // records, from the source to their place

/// Pairs are assumed to be spread evenly over the rows that A stores.
WaySeconds expected_seconds(const ProofState& s, double num_rows, const BoundTiles& tiles, unsigned num_threads) {
  const MatrixHeader& a = s.a.header();
  const MatrixHeader& b = s.b.header();
  const double n = a.n;
  const double m = a.m;
  const double blocks = static_cast<double>(a.num_blocks) + b.num_blocks;
  const double pairs = static_cast<double>(a.num_blocks) * b.num_blocks / s.blocks_per_side;
  const double pairs_of_rows = pairs / std::max<double>(1, static_cast<double>(s.a_rows.size())) * num_rows;
  const double products = num_rows * m * n * n;
  return {
      .pairs = pairs_of_rows * (m * m * m / kTermsPerSecond + kPairSeconds) / num_threads,
      .panels = (products / tiles.products_per_s + blocks * kBlockSeconds) / num_threads,
      .device = s.settings.device.start_s + products / kDeviceProductsPerSecond +
                blocks * static_cast<double>(input_record_bytes(a.m)) / kDeviceBytesPerSecond,
  };
}

}  // namespace

ProvenClaims::ProvenClaims(const ProofState& state, std::span<const SaturatedRow> rows, const Run& run)
    : blocks_per_side_(state.blocks_per_side),
      words_per_row_(BoundTask::words_per_row(state.blocks_per_side)),
      at_(rows.size(), kNone) {
  if (state.settings.way == BoundWay::pairs) return;
  const auto start = std::chrono::steady_clock::now();
  claim(rows, run);
  if (!row_list_.empty()) prove(state, run);
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void ProvenClaims::claim(std::span<const SaturatedRow> rows, const Run& run) {
  constexpr std::uint64_t kGrain = 16;
  const auto everywhere = [](const SaturatedBlock& block) { return block.mask == SaturatedBlock::kEverywhere; };
  std::vector<std::uint8_t> has_claims(rows.size(), 0);
  run.parallel_for(rows.size(), kGrain, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t x = begin; x < end; ++x) {
      const auto num = std::count_if(rows[x].blocks.begin(), rows[x].blocks.end(), everywhere);
      has_claims[x] = 2 * static_cast<std::uint64_t>(num) > blocks_per_side_ ? 1 : 0;
    }
  });
  for (std::size_t x = 0; x < rows.size(); ++x) {
    if (has_claims[x] == 0) continue;
    at_[x] = static_cast<std::uint32_t>(row_list_.size());
    row_list_.push_back(rows[x].row);
  }
  words_.resize(row_list_.size() * words_per_row_, 0);
  run.parallel_for(rows.size(), kGrain, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t x = begin; x < end; ++x) {
      if (at_[x] == kNone) continue;
      std::uint32_t* const words = words_.data() + std::uint64_t{at_[x]} * words_per_row_;
      for (const SaturatedBlock& block : rows[x].blocks) {
        if (everywhere(block)) words[block.at.j / 32] |= 1u << block.at.j % 32;
      }
    }
  });
}

void ProvenClaims::prove(const ProofState& state, const Run& run) {
  const BoundTiles tiles = choose_bound_tiles();
  const WaySeconds seconds =
      expected_seconds(state, static_cast<double>(row_list_.size()), tiles, std::max(1u, run.num_threads));
  const BoundTask task{.a = state.a,
                       .b = state.b,
                       .rows = row_list_,
                       .largest_a = state.largest_a,
                       .largest_b = state.largest_b,
                       .claims = words_};
  const bool chooses = state.settings.way == BoundWay::automatic;
  const bool has_device = static_cast<bool>(state.settings.device.prove);
  const bool prefers_device = !chooses || seconds.device < std::min(seconds.panels, seconds.pairs);
  by_device_ = has_device && prefers_device && state.settings.device.prove(task, run);
  if (by_device_) return;
  const bool prefers_panels = !chooses || seconds.panels < seconds.pairs;
  if (prefers_panels && prove_on_host(task, tiles, state.settings.memory_bytes, run)) return;
  std::fill(at_.begin(), at_.end(), kNone);  // nothing is proven
  row_list_.clear();
  words_.clear();
}

bool ProvenClaims::is_whole(std::size_t number) const {
  if (at_[number] == kNone) return false;
  const std::uint32_t* const words = words_.data() + std::uint64_t{at_[number]} * words_per_row_;
  const std::uint64_t full = blocks_per_side_ / 32;
  const std::uint32_t rest = blocks_per_side_ % 32;
  const auto all = [](std::uint32_t word) { return word == ~std::uint32_t{0}; };
  return std::all_of(words, words + full, all) && (rest == 0 || words[full] == (1u << rest) - 1);
}

std::uint64_t ProvenClaims::num_blocks() const {
  std::uint64_t num = 0;
  for (const std::uint32_t word : words_) num += static_cast<std::uint64_t>(std::popcount(word));
  return num;
}

}  // namespace spmm
