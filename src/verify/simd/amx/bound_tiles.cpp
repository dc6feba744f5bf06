// Tiles of sums of products of bytes with AMX: 32 rows and 32 columns at a time in four tile registers.
#include "verify/simd/bound_tiles.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("amx-tile,amx-int8"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("amx-tile,amx-int8")
#endif

namespace spmm {
namespace {

constexpr std::size_t kTile = 16;       // rows, and 32-bit columns of the sums
constexpr std::size_t kTileBytes = 64;  // of a row: K of A, 16 columns of four K of B
constexpr std::size_t kSumsStride = kBoundTileColumns * sizeof(std::uint32_t);
constexpr std::size_t kStripStride = kBoundStrip * 4;
static_assert(kBoundTileRows % (2 * kTile) == 0 && kBoundStrip % (2 * kTile) == 0 && kBoundDepth % kTileBytes == 0);

/// What LDTILECFG reads. Source: Intel's Software Developer's Manual.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> bytes{};  // of a row, by tile register
  std::array<std::uint8_t, 16> rows{};
};

/// Registers 0 to 3: sums; 4, 5: rows of A; 6, 7: columns of B.
constexpr TileShapes tile_shapes() {
  TileShapes shapes;
  for (std::size_t x = 0; x < 8; ++x) {
    shapes.bytes[x] = kTileBytes;
    shapes.rows[x] = kTile;
  }
  return shapes;
}
constexpr TileShapes kShapes = tile_shapes();

inline void add_square(const std::uint8_t* a, std::size_t a_stride, const std::uint8_t* strip, std::uint32_t* sums) {
  _tile_loadd(0, sums, kSumsStride);
  _tile_loadd(1, sums + kTile, kSumsStride);
  _tile_loadd(2, sums + kTile * kBoundTileColumns, kSumsStride);
  _tile_loadd(3, sums + kTile * kBoundTileColumns + kTile, kSumsStride);
  for (std::size_t k = 0; k < kBoundDepth; k += kTileBytes, a += kTileBytes, strip += kTile * kStripStride) {
    _tile_loadd(4, a, a_stride);
    _tile_loadd(6, strip, kStripStride);
    _tile_loadd(7, strip + kTileBytes, kStripStride);
    _tile_dpbuud(0, 4, 6);
    _tile_dpbuud(1, 4, 7);
    _tile_loadd(5, a + kTile * a_stride, a_stride);
    _tile_dpbuud(2, 5, 6);
    _tile_dpbuud(3, 5, 7);
  }
  _tile_stored(0, sums, kSumsStride);
  _tile_stored(1, sums + kTile, kSumsStride);
  _tile_stored(2, sums + kTile * kBoundTileColumns, kSumsStride);
  _tile_stored(3, sums + kTile * kBoundTileColumns + kTile, kSumsStride);
}

void add_bytes(const std::uint8_t* a, std::size_t a_stride, const std::uint8_t* b, std::size_t b_stride,
               std::uint32_t* sums) {
  _tile_loadconfig(&kShapes);
  for (std::size_t first = 0; first < kBoundTileColumns; first += kBoundStrip, b += b_stride) {
    for (std::size_t c = 0; c < kBoundStrip; c += 2 * kTile) {
      for (std::size_t r = 0; r < kBoundTileRows; r += 2 * kTile) {
        add_square(a + r * a_stride, a_stride, b + c * 4, sums + r * kBoundTileColumns + first + c);
      }
    }
  }
  _tile_release();  // else every change of threads saves the registers
}

/// Whether processor and system have it, and this process may use it: it must ask, once.
bool may_use_amx() {
  constexpr unsigned kLeaf = 7;
  constexpr unsigned kTileBit = 24;
  constexpr unsigned kInt8Bit = 25;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  unsigned registers[4] = {};
  __asm__("cpuid"
          : "=a"(registers[0]), "=b"(registers[1]), "=c"(registers[2]), "=d"(registers[3])
          : "a"(kLeaf), "c"(0));
  if ((registers[3] >> kTileBit & 1) == 0 || (registers[3] >> kInt8Bit & 1) == 0) return false;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

}  // namespace spmm

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace spmm {

BoundTiles amx_bound_tiles() {
  const BoundTiles others = avx512_bound_tiles();  // every processor with AMX has it
  static const bool kMay = may_use_amx();
  if (others.add == nullptr || !kMay) return {};
  return {.add = add_bytes, .reach = others.reach, .bits_a = 8, .bits_b = 8, .products_per_s = 1e12};
}

}  // namespace spmm

#else  // another machine

namespace spmm {

BoundTiles amx_bound_tiles() {
  return {};
}

}  // namespace spmm

#endif
