// Compiled block sizes and device constants; pure C++, shared by kernels and planner.
#pragma once

#include <cstdint>

namespace spmm::kernels {

/// Bytes and number of the pinned buffers that carry raw records to the device and, later, result records back. A 4 MB
/// copy runs at the full rate of the link (80 us against about 5 us of launch cost) and the ring stays small: pinning
/// costs 0.3 s per GB, and while it lasts no other thread can launch.
inline constexpr std::uint64_t kRingSlotBytes = 4u << 20;
inline constexpr std::uint64_t kNumRingSlots = 8;

/// Result records of one panel, unless memory asks for less: large enough that listing its C blocks (20 launches and
/// one wait, 0.3 ms) is small beside its 4 ms of traffic, small enough that the first one reaches the disk early.
inline constexpr std::uint64_t kPanelBytes = 1u << 30;

/// Block sides for which the row kernels (Gustavson, ESC, split-K) are compiled. A block of any other side is padded
/// with zeros to the next of these where operands are gathered: m = 3 to 4, 5 to 7 to 8, and so on. Zeros add nothing
/// to a sum, and results are m x m again. Multiples of eight fill tensor-core fragments.
inline constexpr std::uint32_t kBlockSides[] = {4, 8, 16, 24, 32, 40, 48, 56, 64};

/// The smallest of them that is not below m, 1 to 64.
constexpr std::uint32_t padded_side(std::uint32_t m) {
  for (const std::uint32_t side : kBlockSides) {
    if (m <= side) return side;
  }
  return 0;
}

/// A panel lists its C blocks by ESC (expand, sort and compress its pairs) while it has fewer pairs than this share of
/// its C blocks; above it, visiting every C block is cheaper than sorting.
inline constexpr double kEscPairsPerBlock = 0.25;

/// The same for blocks of side m: sums in registers are the better ones where blocks are large.
constexpr double esc_pairs_per_block(std::uint32_t m) {
  return m <= 8 ? kEscPairsPerBlock : m <= 16 ? 1.0 : 4.0;
}

/// Short rows, with at most this many pairs, are sorted in shared memory, where each pair is compared with all others
/// of its row. Measured on an H200: 58 pairs per row (S5) 0.5 ms less than a sort of the panel; 420 per row 0.2 ms
/// more.
inline constexpr std::uint32_t kShortRowPairs = 256;

/// Split-K: a listed C block with more pairs than this is shared out among CTAs. One warp would take about 0.5 us per
/// pair (estimated from the latency of two dependent loads), so 4,096 pairs last about as long as all the short lists
/// of a panel. Sums of such C blocks stay small: 8 * m * m / 4096 bytes per listed pair.
inline constexpr std::uint32_t kSplitKPairs = 4096;

/// Rates that the planner predicts with, fitted to measurements on one H200 (kernels/README.md has the runs).
inline constexpr double kLaunchesMs = 0.23;                   // launches and waits that every product has
inline constexpr double kBuildBytesPerMs = 8.0e8;             // raw records: parse, gather
inline constexpr double kBuildBlocksPerMs = 1.3e7;            // sort, count
inline constexpr double kCopyBytesPerMs = 4.0e9;              // whole blocks, read and written
inline constexpr double kPlaneBytesPerMs = 1.7e9;             // dense byte planes: clear and expand
inline constexpr double kGustavsonPairsPerMs = 6.0e7;         // small blocks: bound by latency per pair
inline constexpr double kGustavsonTermsPerMs = 1.8e10;        // larger blocks: bound by shared-memory sums
inline constexpr double kGustavsonCheckedPairsPerMs = 4.2e7;  // both with overflow-checked sums
inline constexpr double kGustavsonCheckedTermsPerMs = 6.5e9;
inline constexpr double kGustavsonElementsPerMs = 1.0e9;     // sums cleared and searched for non-zeros
inline constexpr double kGustavsonResultBytesPerMs = 3.0e9;  // records from shared memory
inline constexpr double kEscMs = 0.1;                        // launches and waits of listing
inline constexpr double kEscListPairsPerMs = 1.15e7;         // expand, sort, compress
inline constexpr double kEscBytesPerMs = 2.45e9;             // blocks of each pair, and records
inline constexpr double kTensorTermsPerMs = 7.0e11;          // byte multiply-adds of dense-tensor
inline constexpr double kTiledTermsPerMs = 6.5e9;            // multiply-adds of dense-tiled
inline constexpr double kEarlyExitMargin = 1.1;  // early exit waits for the last element of a tile, not the average

/// The host-driven kernel launches once per result block: about 5 us each. More launches than this need --force.
inline constexpr std::uint64_t kMaxHostDrivenLaunches = 200'000;

}  // namespace spmm::kernels
