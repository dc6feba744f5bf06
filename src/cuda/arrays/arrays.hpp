// Operands and results of products as arrays in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/arrays/device_arrays.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/operands/upload.hpp"
#include "cuda/output/download.hpp"
#include "kernels/blocks/arrays.hpp"

namespace spmm::cuda {

/// Checks the arrays and makes what uploading makes of records: A's elements stay where they are, B's blocks are
/// transposed into a copy. Waits for the stream.
/// Stream: behind the work of the caller's stream at the moment of the call.
/// Errors: FormatError (indptr or indices), OutOfMemory.
ParsedOperands read_arrays(const DeviceArrays& arrays, unsigned key_bits, DeviceMemory& memory, StageEvents& events);

/// Errors: DeviceError (memory that is not this device's).
void check_memory(const void* data, const std::string& name, const DeviceContext& context);

/// Errors: FormatError if something was found in a matrix, by its name.
void check_findings(const DeviceBsrView& view, const std::string& name, const kernels::ArrayFindings& found);

/// Memory of the caller's allocator or the device's pool for an array of a result; null for no bytes.
/// Stream: memory.stream() may use it at once. Errors: OutOfMemory.
std::shared_ptr<std::byte> allocate_result(const DeviceCall& call, DeviceMemory& memory, std::uint64_t bytes,
                                           const char* what);

/// Takes packed panels apart into the arrays of the result. Work is done in the order of the stream that packs.
class ArrayCollector : public PanelTaker {
 public:
  /// num_saturated: as Downloader has it.
  ArrayCollector(const DeviceArrays& arrays, DeviceMemory& memory, StageEvents& events,
                 unsigned long long* num_saturated);

  void wait_until_free(PackedPanel&) override {}
  void push(PackedPanel& panel) override;
  /// The result's arrays are complete, and the caller's stream waits for them.
  std::uint64_t finish() override;

 private:
  /// Arrays that come from the caller or from the pool of the device.
  template <class T>
  std::shared_ptr<T> allocate(std::uint64_t count, const char* what) const;

  /// The blocks of some panels.
  struct Piece {
    std::uint64_t num_blocks = 0;
    DeviceBuffer<std::uint32_t> rows;
    std::shared_ptr<std::byte> indices;
    std::shared_ptr<std::uint32_t> values;
  };
  Piece joined();

  const DeviceArrays& arrays_;
  DeviceMemory& memory_;
  const Stream& stream_;
  StageEvents& events_;
  unsigned long long* num_saturated_;
  std::vector<Piece> pieces_;
  std::uint64_t num_blocks_ = 0;
};

}  // namespace spmm::cuda
