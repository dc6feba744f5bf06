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

class GatheredProducts;

/// Whether kernels can read blocks of elements that lie there: 16 bytes at a time.
bool is_aligned(const void* values);

/// Checks the arrays, or those of many products, and makes what uploading makes of records: A's elements stay where
/// they are, if they are aligned, B's blocks are transposed into a copy. Waits for the stream. Stream: behind the work
/// of the caller's stream at the moment of the call. Values: many = null, or those of `arrays`. Errors: FormatError
/// (indptr or indices), OutOfMemory.
ParsedOperands read_arrays(const DeviceArrays& arrays, GatheredProducts* many, const MatrixHeader& header,
                           const UploadTarget& target);

/// From now on memory comes from the caller's allocator, if that is to serve more than results.
void use_callers_memory(const DeviceArrays& arrays, DeviceMemory& memory);

/// Errors: DeviceError (memory that is not this device's).
void check_memory(const void* data, const std::string& name, const DeviceContext& context);
void check_arrays(const DeviceArrays& arrays, const DeviceContext& context);

/// Errors: FormatError if something was found in a matrix, by its name.
void check_findings(const DeviceBsrView& view, const std::string& name, const kernels::ArrayFindings& found);

/// Memory of the caller's allocator or the device's pool for an array of a result; null for no bytes.
/// Stream: memory.stream() may use it at once. Errors: OutOfMemory.
std::shared_ptr<std::byte> allocate_result(const DeviceCall& call, DeviceMemory& memory, std::uint64_t bytes,
                                           const char* what);

/// The arrays of the result: multipliers write them, or packed panels are taken apart into them. Work is done in the
/// order of the stream that packs.
class ArrayCollector : public PanelTaker {
 public:
  ArrayCollector(const DeviceArrays& arrays, DeviceMemory& memory, StageEvents& events);

  void start(plan::Execution&, unsigned long long* num_saturated) override { num_saturated_ = num_saturated; }
  /// If the arrays would not have much more room than C blocks are expected.
  bool takes_directly(const plan::Execution& execution, const plan::Statistics& counted) override;
  /// From now on panels are written to arrays that have room for max_c_blocks. Returns false, and changes nothing, if
  /// there is no memory for them. Arrays whose last quarter is empty in the end are copied to smaller ones.
  bool reserve(std::uint64_t max_c_blocks, std::size_t num_panels);

  void wait_until_free(PackedPanel& panel) override;
  void push(PackedPanel& panel) override;
  /// The result's arrays are complete, and the caller's stream waits for them.
  std::uint64_t finish() override;

  /// What stays of a result that was reserved: heads [blocks, 2] of its blocks, and blocks before each panel and at the
  /// end [panels + 1]. After finish().
  struct Pattern {
    DeviceBuffer<std::uint32_t> heads;
    DeviceBuffer<std::uint32_t> num_so_far;
  };
  [[nodiscard]] Pattern take_pattern() { return {std::move(heads_), std::move(num_so_far_)}; }

 private:
  /// Arrays that come from the caller or from the pool of the device.
  template <class T>
  std::shared_ptr<T> allocate(std::uint64_t count, const char* what) const;

  /// The blocks of some panels.
  struct Piece {
    std::uint64_t num_blocks = 0;       // as far as there is room
    DeviceBuffer<std::uint32_t> heads;  // [num_blocks, 2]: block row and column
    std::shared_ptr<std::uint32_t> values;
  };
  [[nodiscard]] Piece make_piece(std::uint64_t num_blocks) const;
  void take_reserved();
  Piece joined();

  const DeviceArrays& arrays_;
  DeviceMemory& memory_;
  const Stream& stream_;
  StageEvents& events_;
  unsigned long long* num_saturated_ = nullptr;
  std::uint64_t sure_blocks_ = 0;           // rows of A with no more bring no element to the limit
  std::vector<Piece> pieces_;               // a single one if it has been reserved
  DeviceBuffer<std::uint32_t> num_so_far_;  // [panels + 1], if pieces are reserved: blocks of all panels before
  std::size_t num_panels_ = 0;              // that have been written to what is reserved
  bool is_counted_ = false;                 // those have counted the elements at the limit
  std::uint64_t num_blocks_ = 0;
  DeviceBuffer<std::uint32_t> heads_;  // of the finished result
};

}  // namespace spmm::cuda
