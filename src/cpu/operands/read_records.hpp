// Reads all records of a source into memory with several threads.
#pragma once

#include <cstddef>

#include "base/memory/aligned_array.hpp"
#include "base/run/run.hpp"
#include "base/run/stage_progress.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// Copies the index of each record to `heads` as well, while it is in a cache: who sorts them need not fetch every
/// record from memory.
/// Shapes: returns [num_blocks * input_record_bytes(m)]; heads [num_blocks, kIndexBytes], or null.
/// Errors: what the source throws, Interrupted.
AlignedArray<std::byte> read_records(const Source& source, Progress& progress, const Run& run,
                                     std::byte* heads = nullptr);

}  // namespace spmm::cpu
