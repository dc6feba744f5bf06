// The door of the verifier's kernels: raw records -> dense panels of high bytes -> which C blocks are saturated
// everywhere, by lower bounds. They share no code with the kernels of the products that they check.
// Stream: every launch is asynchronous on the given stream and waits for nothing.
// Errors: CudaError from the launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace spmm::kernels {

inline constexpr std::uint32_t kBoundRows = 128;        // element rows of A that a CTA takes
inline constexpr std::uint32_t kBoundColumns = 256;     // element columns of B
inline constexpr std::uint32_t kBoundChunk = 1024;      // K between two looks at the sums
inline constexpr std::uint32_t kMaxBoundChunks = 1024;  // of K
inline constexpr std::uint32_t kBoundTerms = 32'768;    // after so many terms sums are cut to kBoundDone
inline constexpr std::uint32_t kBoundDone = 1u << 31;   // a sum that is large enough, or not wanted

/// Whether a device has what the kernels use: cp.async, mma.sync on 32 bytes of K.
constexpr bool can_prove_bounds(int major) {
  return major >= 8;
}

/// High bytes of element rows of A, or of element columns of B: K lies along a line.
/// Shapes: bytes [num_lines, depth], used [num_lines / lines_per_tile, depth / kBoundChunk], device, cleared; num_lines
/// a multiple of lines_per_tile (kBoundRows or kBoundColumns), depth of kBoundChunk.
struct BytePanel {
  std::uint8_t* bytes = nullptr;
  std::uint8_t* used = nullptr;  // 1: the tile holds a block in this chunk of K
  std::uint64_t num_lines = 0;
  std::uint64_t depth = 0;
  std::uint32_t lines_per_tile = 0;
};

/// Tiles of C that two panels make.
constexpr std::uint64_t bound_tiles(const BytePanel& a, const BytePanel& b) {
  return a.num_lines / kBoundRows * (b.num_lines / kBoundColumns);
}

/// Raw records in device memory, as they lie in a file.
struct RawRecords {
  const std::byte* bytes = nullptr;  // [count, 8 + 2 m^2], aligned to 2 bytes
  std::uint64_t count = 0;
  std::uint32_t m = 0;
  std::uint32_t blocks_per_side = 0;  // blocks outside are left out
};

/// Puts blocks of A into a panel: element >> shift. Shapes: places [blocks_per_side], the block row's number in the
/// panel or kNoPlace, device.
inline constexpr std::uint32_t kNoPlace = 0xFFFF'FFFFu;
void launch_scatter_rows(const RawRecords& records, const std::uint32_t* places, std::uint32_t shift,
                         const BytePanel& panel, cudaStream_t stream);

/// Puts blocks of B into a panel of the element columns from first_column on.
void launch_scatter_columns(const RawRecords& records, std::uint64_t first_column, std::uint32_t shift,
                            const BytePanel& panel, cudaStream_t stream);

/// Blocks of C that claim to be saturated everywhere: bit j % 32 of word j / 32 of a block row of the panel of A.
struct BoundClaims {
  std::uint32_t* words = nullptr;  // [num_rows, words_per_row], device
  std::uint32_t num_rows = 0;      // block rows
  std::uint32_t words_per_row = 0;
  std::uint32_t m = 0;
  std::uint32_t blocks_per_side = 0;
  std::uint32_t first_row = 0;        // element row of the first line of A
  std::uint32_t first_column = 0;     // element column of the first line of B
  std::uint32_t limit = 0;            // sums from here on prove saturation; at most kBoundDone
  std::uint32_t* num_done = nullptr;  // [1], device: grows by one for each tile
};

/// Clears the claims of blocks with an element whose sum of products of bytes stays below the limit. What stays is
/// proven only if all tiles are done: a claim also stays if nothing has run.
/// Values: depth <= kBoundChunk * kMaxBoundChunks.
void launch_prove_claims(const BytePanel& a, const BytePanel& b, const BoundClaims& claims, cudaStream_t stream);

}  // namespace spmm::kernels
