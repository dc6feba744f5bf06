// Records transposed where they lie once they are read.
#include "io/memory/transposed_source.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace spmm::io {
namespace {

constexpr std::uint64_t kTransposedBytes = 256u << 10;  // read at a time: still in the cache when it is transposed

/// kSide = m where that is known while this is compiled, else 0.
template <std::uint32_t kSide>
void transpose_all(std::byte* record, std::uint64_t count, std::uint32_t side) {
  const std::uint32_t m = kSide != 0 ? kSide : side;
  const std::uint64_t bytes = input_record_bytes(m);
  std::array<std::uint16_t, kSide != 0 ? kSide * kSide : kMaxBlockDim * kMaxBlockDim> from;
  for (const std::byte* const end = record + count * bytes; record != end; record += bytes) {
    std::uint64_t head = 0;  // i and j
    std::memcpy(&head, record, sizeof head);
    head = std::rotl(head, 32);
    std::memcpy(record, &head, sizeof head);
    std::memcpy(from.data(), record + kIndexBytes, bytes - kIndexBytes);
    for (std::uint32_t r = 0; r < m; ++r) {
      std::byte* const row = record + kIndexBytes + std::uint64_t{r} * m * sizeof from[0];
      for (std::uint32_t c = 0; c < m; ++c) std::memcpy(row + c * sizeof from[0], &from[c * m + r], sizeof from[0]);
    }
  }
}

/// Makes {i, j, block} of each record {j, i, transpose of the block}.
/// Shapes: records [count * input_record_bytes(m)], no alignment needed. Values: 1 <= m <= 64.
void transpose_records(std::byte* records, std::uint64_t count, std::uint32_t m) {
  static_assert(kIndexBytes == sizeof(std::uint64_t));
  switch (m) {
    case 1:
      return transpose_all<1>(records, count, m);
    case 4:
      return transpose_all<4>(records, count, m);
    case 8:
      return transpose_all<8>(records, count, m);
    case 16:
      return transpose_all<16>(records, count, m);
    case 32:
      return transpose_all<32>(records, count, m);
    default:
      return transpose_all<0>(records, count, m);
  }
}

}  // namespace

void TransposedSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  const std::uint32_t m = header().m;
  const std::uint64_t bytes = input_record_bytes(m);
  const std::uint64_t per_piece = std::max<std::uint64_t>(1, kTransposedBytes / bytes);
  while (count != 0) {
    const std::uint64_t here = std::min(count, per_piece);
    plain_.read(first, here, dst);
    transpose_records(dst, here, m);
    first += here;
    count -= here;
    dst += here * bytes;
  }
}

}  // namespace spmm::io
