// Records transposed in place.
#include "io/memory/transpose_records.hpp"

#include <bit>
#include <cstring>
#include <utility>

#include "base/records/head.hpp"
#include "spmm/types.hpp"

namespace spmm::io {
namespace {

constexpr std::uint32_t kTile = 8;  // elements of a vector register
constexpr std::size_t kElementBytes = sizeof(std::uint16_t);

/// 16 bytes as elements of one type.
template <typename Element>
using Elements [[gnu::vector_size(16)]] = Element;
using Register = Elements<std::uint64_t>;

/// Elements of x and y alternate, from element kFirst of both.
template <typename Element, Element kFirst, Element... kAt>
Register zip(Register x, Register y, std::integer_sequence<Element, kAt...>) {
  const auto of_x = std::bit_cast<Elements<Element>>(x);
  const auto of_y = std::bit_cast<Elements<Element>>(y);
#if defined(__clang__)
  return std::bit_cast<Register>(__builtin_shufflevector(of_x, of_y, (kFirst + kAt / 2 + kAt % 2 * sizeof...(kAt))...));
#else
  constexpr Elements<Element> kOrder{(kFirst + kAt / 2 + kAt % 2 * sizeof...(kAt))...};
  return std::bit_cast<Register>(__builtin_shuffle(of_x, of_y, kOrder));
#endif
}

/// Of both the first half.
template <typename Element>
Register zip_low(Register x, Register y) {
  return zip<Element, 0>(x, y, std::make_integer_sequence<Element, 16 / sizeof(Element)>());
}

/// The second half.
template <typename Element>
Register zip_high(Register x, Register y) {
  return zip<Element, 8 / sizeof(Element)>(x, y, std::make_integer_sequence<Element, 16 / sizeof(Element)>());
}

Register load(const std::byte* at) {
  Register value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void store(std::byte* at, Register value) {
  std::memcpy(at, &value, sizeof value);
}

/// 8 x 8 elements, a row a register.
struct Tile {
  Register rows[kTile];
};

/// Shapes: first [8 rows of 8 elements], row_bytes apart.
inline Tile load_transposed(const std::byte* first, std::size_t row_bytes) {
  Register pairs[kTile];  // of rows: elements of two rows alternate
  Register fours[kTile];  // elements of four rows alternate
  for (std::uint32_t r = 0; r < kTile; r += 2) {
    const Register even = load(first + r * row_bytes);
    const Register odd = load(first + (r + 1) * row_bytes);
    pairs[r] = zip_low<std::uint16_t>(even, odd);
    pairs[r + 1] = zip_high<std::uint16_t>(even, odd);
  }
  for (std::uint32_t half = 0; half < kTile; half += 4) {
    fours[half] = zip_low<std::uint32_t>(pairs[half], pairs[half + 2]);
    fours[half + 1] = zip_high<std::uint32_t>(pairs[half], pairs[half + 2]);
    fours[half + 2] = zip_low<std::uint32_t>(pairs[half + 1], pairs[half + 3]);
    fours[half + 3] = zip_high<std::uint32_t>(pairs[half + 1], pairs[half + 3]);
  }
  Tile tile;
  for (std::uint32_t c = 0; c < kTile / 2; ++c) {
    tile.rows[2 * c] = zip_low<std::uint64_t>(fours[c], fours[c + 4]);
    tile.rows[2 * c + 1] = zip_high<std::uint64_t>(fours[c], fours[c + 4]);
  }
  return tile;
}

inline void store_tile(std::byte* first, std::size_t row_bytes, const Tile& tile) {
  for (std::uint32_t r = 0; r < kTile; ++r) store(first + r * row_bytes, tile.rows[r]);
}

inline void swap_elements(std::byte* x, std::byte* y) {
  std::uint16_t of_x;
  std::uint16_t of_y;
  std::memcpy(&of_x, x, kElementBytes);
  std::memcpy(&of_y, y, kElementBytes);
  std::memcpy(x, &of_y, kElementBytes);
  std::memcpy(y, &of_x, kElementBytes);
}

inline void transpose_4(std::byte* block) {
  const Register low = load(block);  // rows 0 and 1
  const Register high = load(block + sizeof low);
  const Register even = zip_low<std::uint16_t>(low, high);  // rows 0 and 2
  const Register odd = zip_high<std::uint16_t>(low, high);  // rows 1 and 3
  store(block, zip_low<std::uint16_t>(even, odd));
  store(block + sizeof low, zip_high<std::uint16_t>(even, odd));
}

/// Tiles of 8 x 8 change places across the diagonal; what is left at the right and below goes element by element.
inline void transpose_block(std::byte* block, std::uint32_t m) {
  const std::size_t row_bytes = m * kElementBytes;
  const std::uint32_t in_tiles = m / kTile * kTile;
  const auto at = [&](std::uint32_t r, std::uint32_t c) { return block + r * row_bytes + c * kElementBytes; };
  for (std::uint32_t r = 0; r < in_tiles; r += kTile) {
    for (std::uint32_t c = 0; c < r; c += kTile) {
      const Tile below = load_transposed(at(r, c), row_bytes);
      const Tile above = load_transposed(at(c, r), row_bytes);
      store_tile(at(c, r), row_bytes, below);
      store_tile(at(r, c), row_bytes, above);
    }
    store_tile(at(r, r), row_bytes, load_transposed(at(r, r), row_bytes));
  }
  for (std::uint32_t r = in_tiles; r < m; ++r)
    for (std::uint32_t c = 0; c < r; ++c) swap_elements(at(r, c), at(c, r));
}

/// kSide = m where that is known while this is compiled, else 0.
template <std::uint32_t kSide>
void transpose_all(std::byte* record, std::uint64_t count, std::uint32_t side) {
  const std::uint32_t m = kSide != 0 ? kSide : side;
  const std::uint64_t bytes = input_record_bytes(m);
  for (const std::byte* const end = record + count * bytes; record != end; record += bytes) {
    std::uint64_t head = 0;  // i and j
    std::memcpy(&head, record, sizeof head);
    head = std::rotl(head, 32);
    std::memcpy(record, &head, sizeof head);
    if constexpr (kSide == 4) {
      transpose_4(record + kIndexBytes);
    } else {
      transpose_block(record + kIndexBytes, m);
    }
  }
}

}  // namespace

void transpose_records(std::byte* records, std::uint64_t count, std::uint32_t m) {
  static_assert(kIndexBytes == sizeof(std::uint64_t));
  switch (m) {
    case 1:
      return transpose_all<1>(records, count, m);
    case 2:
      return transpose_all<2>(records, count, m);
    case 3:
      return transpose_all<3>(records, count, m);
    case 4:
      return transpose_all<4>(records, count, m);
    case 5:
      return transpose_all<5>(records, count, m);
    case 6:
      return transpose_all<6>(records, count, m);
    case 7:
      return transpose_all<7>(records, count, m);
    case 8:
      return transpose_all<8>(records, count, m);
    case 16:
      return transpose_all<16>(records, count, m);
    default:
      return transpose_all<0>(records, count, m);
  }
}

}  // namespace spmm::io
