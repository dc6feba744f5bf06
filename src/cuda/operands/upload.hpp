// Source -> pinned ring -> devices -> keys and packed elements.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/run/run.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/operands/operands.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// Where a device gets both matrices.
struct UploadTarget {
  DeviceMemory& memory;
  StageEvents& events;
};

class Pipeline;

/// Ends a pipeline with its device current.
struct OnItsDevice {
  int device = 0;
  void operator()(Pipeline* pipeline) const noexcept;
};
using Pipelines = std::vector<std::unique_ptr<Pipeline, OnItsDevice>>;

/// Reads both matrices once with the threads of the run through the pinned slots of the first pipeline, and parses them
/// on the device of each; then each pipeline sorts them. A and B travel on streams of their own, overlapped with
/// reading, with each other and with those of other devices.
/// Shapes: operands for each pipeline.
/// Stream: returns, or throws, when all streams are done with the buffers; they belong to memory().stream().
/// Errors: FormatError (index out of range), OutOfMemory, Interrupted, what the sources throw; with several devices,
/// those of one name it.
std::vector<SortedOperands> upload(const Source& a, const Source& b, const Pipelines& pipelines, const Run& run);

}  // namespace spmm::cuda
