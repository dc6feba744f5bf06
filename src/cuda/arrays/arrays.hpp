// Operands and results of products as arrays in device memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cuda/arrays/device_arrays.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/operands/operands.hpp"
#include "kernels/blocks/arrays.hpp"

namespace spmm::cuda {

/// Whether kernels can read blocks of elements that lie there: 16 bytes at a time.
bool is_aligned(const void* values);

/// Errors: FormatError if something was found in a matrix, by its name.
void check_findings(const DeviceBsrView& view, const std::string& name, const kernels::ArrayFindings& found);

/// The operands of a product; those of many products are gathered to two, which have them on the diagonal. Stream:
/// memory.stream(), behind the work of the caller's stream at the moment of read().
class ArrayOperands {
 public:
  /// All references must outlive it. Errors: DeviceError (memory that is not this device's), OutOfMemory.
  ArrayOperands(const DeviceArrays& arrays, DeviceMemory& memory);

  /// Checks the arrays, and makes what uploading makes of records: A's elements stay where they are, if they are
  /// aligned, B's blocks are transposed into a copy. Waits for the stream. Errors: FormatError (indptr or indices),
  /// OutOfMemory.
  SortedOperands read(const MatrixHeader& header, StageEvents& events);

  /// As they are multiplied. Values: those that are gathered have their elements alone, as far as they are needed.
  [[nodiscard]] std::array<DeviceBsrView, 2> views() const { return {sides_[0].view, sides_[1].view}; }

  /// Gives each of many products its own numbers in the one result; the caller's stream waits for them. Errors:
  /// OutOfMemory.
  void finish(StageEvents& events);

 private:
  /// One operand, of all products.
  struct Side {
    const ManyMatrices& many;
    const char* name;
    DeviceBsrView view;
    kernels::GatherTable table{};               // of the matrices that are gathered
    DeviceBuffer<kernels::GatherItem> items{};  // of those that are listed
    std::optional<PinnedSlot> slot{};           // the last of them, as the host wrote them
    DeviceBuffer<std::byte> indptr{};
    DeviceBuffer<std::byte> indices{};
    DeviceBuffer<std::byte> values{};
  };

  [[nodiscard]] bool are_many() const { return arrays_.batch != nullptr; }
  void set_table(Side& side);
  void upload_items(Side& side);
  void gather(Side& side, kernels::ArrayFindings* findings);

  const DeviceArrays& arrays_;
  DeviceMemory& memory_;
  std::array<Side, 2> sides_{Side{.many = arrays_.many_a, .name = "matrix A", .view = arrays_.a},
                             Side{.many = arrays_.many_b, .name = "matrix B", .view = arrays_.b}};
  SettledAtEnd settled_{memory_.stream()};  // last: slots go when they have been read
};

/// Errors: DeviceError (memory that is not this device's).
void check_memory(const void* data, const std::string& name, const DeviceContext& context);

/// Elements of a result of u16 that are kMaxVal; 0 of other types. Waits for the stream. Shapes: c [count], device.
std::uint64_t count_saturated(ElementType type, const void* c, std::uint64_t count, DeviceMemory& memory);

/// Memory of the caller's allocator or the device's pool for an array of a result; null for no bytes.
/// Stream: memory.stream() may use it at once. Errors: OutOfMemory.
std::shared_ptr<std::byte> allocate_result(const DeviceCall& call, DeviceMemory& memory, std::uint64_t bytes,
                                           const char* what);

}  // namespace spmm::cuda
