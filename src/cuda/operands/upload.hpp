// Source -> pinned ring -> devices -> keys and packed elements.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/run/run.hpp"
#include "cuda/device/pinned_ring.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "kernels/views.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// One matrix on the device, in file order.
struct ParsedMatrix {
  DeviceBuffer<std::uint64_t> keys;    // [nnzb], block row << key_bits | block column
  DeviceBuffer<std::uint16_t> values;  // [nnzb, m, m]
  std::uint32_t max_element = 0;
  bool has_zeros = false;  // a block with a column of zeros (A), of zeros alone (B)
  bool is_sorted = false;  // known to be: keys ascend
};

struct ParsedOperands {
  ParsedMatrix a;
  ParsedMatrix b;
  unsigned key_bits = 0;
};

/// Bits of a block row or column in keys of a matrix of nb x nb blocks.
inline unsigned key_bits_of(std::uint32_t nb) {
  return std::max(1u, static_cast<unsigned>(std::bit_width(nb - 1)));
}

/// A device that gets both matrices.
struct UploadTarget {
  DeviceMemory& memory;
  StageEvents& events;
};

/// Work of each device that follows parsing, and wants nothing of the host before. Called for device d by threads that
/// have it current.
struct WorkAhead {
  using Work = std::function<void(std::size_t d, const ParsedOperands& parsed)>;
  Work prepare{};  // some time before
  Work queue{};    // when all records and their parsing have been put on the streams: what it puts on memory.stream()
                   // runs behind the parsing
};

/// Reads both matrices once with the threads of the run through the slots of `ring`, and parses them on each device. A
/// and B travel on streams of their own, overlapped with reading, with each other and with those of other devices.
/// Shapes: a pair for each target.
/// Stream: returns, or throws, when all streams are done with the buffers; they belong to memory.stream().
/// Errors: FormatError (index out of range), OutOfMemory, Interrupted, what the sources throw; with several targets,
/// those of a device name it.
std::vector<ParsedOperands> upload(const Source& a, const Source& b, PinnedRing& ring,
                                   std::span<const UploadTarget> targets, const Run& run, const WorkAhead& ahead);

}  // namespace spmm::cuda
