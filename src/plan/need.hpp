// What a product needs of memory: need() sizes threads, buffers and panels by it, src/cuda allocates by it, and cut()
// cuts panels of that size. Upper bounds; pure functions. Of CPU kernels: src/cpu/simd/layout.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/choice.hpp"
#include "plan/registry.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {

/// A choice of this kernel: the most threads that fit with buffers of a useful size, else the largest buffers that fit;
/// on CUDA the largest useful panels. Refused where nothing fits, or the device lacks what the kernel takes.
/// Values: of CUDA, limits.gpus has one.
Choice need(const KernelRow& kernel, const Counts& s, const Limits& limits);

/// Cuts an exact choice of CUDA into panels, shares them out among the devices, and sets the layout that follows from
/// them. Asks for the tiles of tile-tensor instead, or in addition, if they are worth counting.
void cut(Choice& choice, const Counts& s, const Limits& limits);

inline Refusal device_memory_refusal(const char* what, std::uint64_t need_bytes) {
  return {.kind = Refusal::Kind::device_memory, .what = what, .need_bytes = need_bytes};
}

/// Elements of a tile's side in every dense kernel.
inline constexpr std::uint32_t kTileRows = 128;

/// Arrays of an operand sorted by block row; src/cuda allocates them by it.
struct IndexLayout {
  IndexLayout(std::uint64_t num_blocks, std::uint32_t nb)
      : blocks(num_blocks), rows(std::min<std::uint64_t>(num_blocks, nb)) {}

  std::uint64_t blocks;
  std::uint64_t rows;  ///< at most

  /// Row numbers, offsets, columns, each of 32 bits.
  [[nodiscard]] std::uint64_t bytes() const { return 4 * (rows + (rows + 1) + blocks); }
};

/// What the operands take: while panels are computed, and at the peak of the build before that.
struct OperandBytes {
  std::uint64_t resident = 0;
  std::uint64_t build_peak = 0;
};

/// Values: for every layout; the largest of what the kernels ask for. side: of the blocks as kernels read them, m or
/// padded_side(m).
OperandBytes operand_device_bytes(const MatrixHeader& a, const MatrixHeader& b, std::uint32_t side);

/// Slots of kRingSlotBytes of raw records that are parsed together: each reader has room for them on the device, where
/// operand_device_bytes counts with work space and a copy of A's elements. Values: num_readers = kNumRingSlots at most.
std::uint64_t upload_section_slots(const MatrixHeader& a, const MatrixHeader& b, unsigned num_readers);

/// Whether the rows of B that A's blocks meet are found in a table of all block rows; it lies where
/// operand_device_bytes counts with a sort.
bool has_device_row_table(std::uint64_t a_blocks, std::uint32_t nb);

/// Device bytes per C block of a panel of the dense kernels: packed records, accumulated values, coordinates, flags,
/// scan. Packed records count twice: one copy leaves the device while the next panel is computed.
std::uint64_t dense_panel_c_block_bytes(std::uint32_t m);

/// The same whatever kernel computes it: other kernels also list pairs by expansion. Kernels that write records
/// themselves accumulate nothing here; a listed panel keeps the sums of its split lists instead (kSplitKPairs: 8 * m *
/// m / 4096 bytes per pair).
std::uint64_t panel_c_block_bytes(std::uint32_t m);

}  // namespace spmm::plan
