// Tiles of sums of products of bytes on the host: lower bounds of sums of C.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spmm {

inline constexpr std::size_t kBoundTileRows = 96;      // element rows of A
inline constexpr std::size_t kBoundTileColumns = 256;  // element columns of B
inline constexpr std::size_t kBoundDepth = 512;        // K of one call
inline constexpr std::size_t kBoundStrip = 64;         // columns of B that lie together

/// sums += a * b, modulo 2^32.
/// Shapes: a [kBoundTileRows, kBoundDepth], rows a_stride apart; b: kBoundTileColumns / kBoundStrip strips, b_stride
/// bytes apart, each [kBoundDepth / 4, kBoundStrip, 4]; sums [kBoundTileRows, kBoundTileColumns], aligned to 64 bytes.
/// Values: bytes of a below 2^bits_a, of b below 2^bits_b (BoundTiles).
using AddBytes = void (*)(const std::uint8_t* a, std::size_t a_stride, const std::uint8_t* b, std::size_t b_stride,
                          std::uint32_t* sums);

/// Whether all sums of a tile reach the limit; cut_to > 0: larger ones become that first.
using ReachLimit = bool (*)(std::uint32_t* sums, std::uint32_t limit, std::uint32_t cut_to);

struct BoundTiles {
  AddBytes add = nullptr;
  ReachLimit reach = nullptr;
  std::uint32_t bits_a = 8;
  std::uint32_t bits_b = 8;
  double products_per_s = 0;  ///< of one core, for the choice between ways
};

/// For the processor that this runs on.
BoundTiles choose_bound_tiles();
BoundTiles portable_bound_tiles();
/// Null functions where the processor does not have the instructions, or the system does not let them be used.
BoundTiles amx_bound_tiles();
BoundTiles avx512_bound_tiles();
BoundTiles avx2_bound_tiles();

}  // namespace spmm
