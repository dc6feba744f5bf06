// Compiled block sizes and device constants; pure C++, shared by kernels and planner.
#pragma once

#include <cstdint>

namespace spmm::kernels {

/// Bytes of one slot of the ring that carries raw records to the device. A 4 MB copy runs at the full rate of the link
/// (80 us against about 5 us of launch cost) and the ring stays small: pinning costs 0.3 s per GB.
inline constexpr std::uint64_t kUploadSlotBytes = 4u << 20;
inline constexpr std::uint64_t kNumUploadSlots = 8;

/// Bytes of one slot of the ring that carries result records to the writer, and their number.
inline constexpr std::uint64_t kDownloadSlotBytes = 16u << 20;
inline constexpr std::uint64_t kNumDownloadSlots = 6;

/// Result records of one panel, unless memory asks for less: large enough that a dozen launches and one wait per panel
/// do not show, small enough that the first panel reaches the disk early.
inline constexpr std::uint64_t kPanelBytes = 256u << 20;

/// A panel lists its tiles by expansion (sort of all pairs) while it has fewer pairs than this share of its tiles;
/// above it, visiting every tile is cheaper than sorting.
inline constexpr double kExpandPairsPerTile = 0.25;

/// The host-driven kernel launches once per result block: about 5 us each. More launches than this need --force.
inline constexpr std::uint64_t kMaxHostDrivenLaunches = 200'000;

}  // namespace spmm::kernels
