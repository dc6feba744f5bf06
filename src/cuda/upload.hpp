// Source -> pinned ring -> device -> keys and packed elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/run.hpp"
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

/// Pinned buffers of kRingSlotBytes each, allocated when first needed and used again on the way back.
using PinnedRing = std::vector<PinnedBuffer<std::byte>>;

/// Reads both matrices with the threads of the run through at most num_slots pinned buffers, which are left in `ring`,
/// and parses them on the device. A and B travel on streams of their own, overlapped with reading and with each other.
/// Returns when all is parsed. Errors: FormatError (index out of range), Interrupted, what the sources throw.
ParsedPair upload(const Source& a, const Source& b, int device, std::uint64_t num_slots, PinnedRing& ring,
                  DeviceMemory& memory, StageEvents& events, const Run& run);

}  // namespace spmm::cuda
