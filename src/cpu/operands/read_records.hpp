// Reads all records of a source into memory with several threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// Shapes: returns [num_blocks * input_record_bytes(m)]. Errors: what the source throws, Interrupted.
AlignedArray<std::byte> read_records(const Source& source, Progress& progress, const Run& run);

/// The records of a source, their indices once more by themselves: who sorts them need not fetch every record.
struct IndexedRecords {
  AlignedArray<std::uint64_t> heads;     ///< [num_blocks] block row in the lower half, block column in the upper one
  AlignedArray<std::byte> raw;           ///< [num_blocks * input_record_bytes(m)]; empty if m is 1
  AlignedArray<std::uint16_t> elements;  ///< [num_blocks] if m is 1
  std::uint32_t first_row = 0;           ///< the smallest block row
  std::uint32_t last_row = 0;            ///< the largest one, which may be out of range

  [[nodiscard]] BlockIndex index(std::uint64_t record) const {
    return {.i = static_cast<std::uint32_t>(heads[record]), .j = static_cast<std::uint32_t>(heads[record] >> 32)};
  }
};
IndexedRecords read_indexed_records(const Source& source, Progress& progress, const Run& run);

}  // namespace spmm::cpu
