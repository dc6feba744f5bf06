// Reads all records of a source into memory with several threads.
#pragma once

#include <cstddef>

#include "base/aligned_array.hpp"
#include "base/run.hpp"
#include "cpu/stage_progress.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// Shapes: returns [num_blocks * input_record_bytes(m)]. Errors: what the source throws, Interrupted.
AlignedArray<std::byte> read_records(const Source& source, Progress& progress, const Run& run);

}  // namespace spmm::cpu
