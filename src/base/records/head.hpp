// The head {i, j} of a packed record: the one place that knows its layout.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

#include "spmm/types.hpp"

namespace spmm {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read without conversion");

/// Block index at the start of a packed record. Shapes: record [kIndexBytes or more], no alignment needed.
inline BlockIndex read_index(const std::byte* record) {
  BlockIndex index;
  std::memcpy(&index.i, record, sizeof index.i);
  std::memcpy(&index.j, record + sizeof index.i, sizeof index.j);
  return index;
}

/// Puts a block index at the start of a packed record. Shapes: record [kIndexBytes or more], no alignment needed.
inline void write_index(std::byte* record, BlockIndex index) {
  std::memcpy(record, &index.i, sizeof index.i);
  std::memcpy(record + sizeof index.i, &index.j, sizeof index.j);
}

}  // namespace spmm
