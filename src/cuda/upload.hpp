// Source -> pinned ring -> device -> keys and packed elements.
#pragma once

#include <cstdint>

#include "base/run.hpp"
#include "cuda/pinned_ring.hpp"
#include "cuda/raii.hpp"
#include "cuda/stage_events.hpp"
#include "kernels/launch.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// One matrix on the device, in file order.
struct ParsedMatrix {
  DeviceBuffer<std::uint64_t> keys;    // [nnzb], block row << key_bits | block column
  DeviceBuffer<std::uint16_t> values;  // [nnzb, m, m]
  std::uint32_t max_element = 0;
};

struct ParsedPair {
  ParsedMatrix a;
  ParsedMatrix b;
  unsigned key_bits = 0;
};

/// Reads both matrices with the threads of the run through the slots of `ring`, and parses them on the device. A and B
/// travel on streams of their own, overlapped with reading and with each other.
/// Stream: returns, or throws, when all streams are done with the buffers; they belong to memory.stream().
/// Errors: FormatError (index out of range), OutOfMemory, Interrupted, what the sources throw.
ParsedPair upload(const Source& a, const Source& b, PinnedRing& ring, DeviceMemory& memory, StageEvents& events,
                  const Run& run);

}  // namespace spmm::cuda
