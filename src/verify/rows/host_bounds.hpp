// Lower bounds of whole panels of C on the host: dense tiles of high bytes.
#pragma once

#include <cstdint>

#include "base/run/bound_task.hpp"
#include "base/run/run.hpp"
#include "verify/simd/bound_tiles.hpp"

namespace spmm {

/// As BoundProver, on the threads of the run. Memory: about memory_bytes (0 = no limit), the operands' high bytes, n
/// bytes for each element row of A and column of B, in as many parts as it takes; and a tile for each thread.
/// Errors: OutOfMemory, Interrupted, what the sources throw.
bool prove_on_host(const BoundTask& task, const BoundTiles& tiles, std::uint64_t memory_bytes, const Run& run);

}  // namespace spmm
