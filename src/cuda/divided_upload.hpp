// Source -> pinned halves of slots, records parted by their inner block index -> the device that has that part.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/upload.hpp"

namespace spmm::cuda {

/// What one device gets: arrays as long as it has records.
struct InnerPart {
  ParsedPair parsed;
  std::uint64_t a_records = 0;
  std::uint64_t b_records = 0;
};

/// Reads both matrices once and gives each record to the device whose range of the inner dimension it lies in: blocks
/// of A by their column, blocks of B by their row. Records of a device come in any order.
/// Shapes: borders[d - 1] = the first inner block index of device d; a part for each target. Arrays are allocated for
/// all records, which a part may have.
/// Stream: as upload(). Memory: 2 MB of the host for each reader.
/// Errors: FormatError for a record outside its matrix (whichever was met), OutOfMemory, Interrupted, what the sources
/// throw.
std::vector<InnerPart> upload_divided(const Source& a, const Source& b, std::span<const std::uint32_t> borders,
                                      std::span<PinnedRing* const> rings, std::span<const UploadTarget> targets,
                                      const Run& run);

}  // namespace spmm::cuda
