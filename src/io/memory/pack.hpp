// Between blocks in memory and packed records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/records/head.hpp"
#include "io/formats/format.hpp"
#include "spmm/block_matrix.hpp"

namespace spmm::io {

/// An empty matrix with the header's shape and room for its blocks.
template <class T>
BlockList<T> empty_matrix(const MatrixHeader& header) {
  BlockList<T> matrix;
  matrix.n = header.n;
  matrix.m = header.m;
  matrix.index.reserve(header.num_blocks);
  matrix.values.reserve(std::size_t{header.num_blocks} * header.m * header.m);
  return matrix;
}

/// Packs blocks [first, first + count) of `matrix`. Shapes: dst [count * record_bytes<T>(m)].
template <class T>
void pack_records(const BlockList<T>& matrix, std::uint64_t first, std::uint64_t count, std::byte* dst) {
  const std::size_t record = record_bytes<T>(matrix.m);
  for (std::uint64_t b = first; b < first + count; ++b, dst += record) {
    write_index(dst, matrix.index[b]);
    std::memcpy(dst + kIndexBytes, matrix.block(b), record - kIndexBytes);
  }
}

/// Appends `count` packed records to the blocks of `matrix`, whose m is set.
template <class T>
void unpack_records(const std::byte* src, std::uint64_t count, BlockList<T>& matrix) {
  const std::size_t record = record_bytes<T>(matrix.m);
  const std::size_t block_elements = std::size_t{matrix.m} * matrix.m;
  for (std::uint64_t r = 0; r < count; ++r, src += record) {
    matrix.index.push_back(read_index(src));
    const std::size_t end = matrix.values.size();
    matrix.values.resize(end + block_elements);
    std::memcpy(matrix.values.data() + end, src + kIndexBytes, block_elements * sizeof(T));
  }
}

}  // namespace spmm::io
