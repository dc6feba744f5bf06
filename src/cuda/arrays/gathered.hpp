// Many products in device memory as one whose operands have them on the diagonal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda/arrays/device_arrays.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "kernels/blocks/arrays.hpp"

namespace spmm::cuda {

/// The operands of many products, gathered to two. Stream: memory.stream().
class GatheredProducts {
 public:
  /// All references must outlive it. Errors: DeviceError (memory that is not this device's), OutOfMemory.
  GatheredProducts(const DeviceArrays& arrays, DeviceMemory& memory);

  /// Puts the gathering on the stream; returns both matrices. Shapes: findings [2], device.
  std::array<DeviceBsrView, 2> gather(kernels::ArrayFindings* findings);
  [[nodiscard]] std::array<DeviceBsrView, 2> views() const { return {a_.view, b_.view}; }
  /// Errors: FormatError that names the product.
  void check_findings(const std::array<kernels::ArrayFindings, 2>& found) const;
  /// Gives back what has been read: all but elements that are still needed.
  void drop_read();
  /// Makes the one result that of many products. Errors: OutOfMemory.
  void finish(StageEvents& events);

 private:
  /// One operand of all products.
  struct Side {
    const ManyMatrices& many;
    const char* name;
    DeviceBsrView view;                         // the gathered matrix
    kernels::GatherTable table{};               // of those that it is made of
    DeviceBuffer<kernels::GatherItem> items{};  // of those that are listed
    std::optional<PinnedSlot> slot{};           // the last of them, as the host wrote them
    DeviceBuffer<std::byte> indptr{};
    DeviceBuffer<std::byte> indices{};
    DeviceBuffer<std::byte> values{};
  };

  void set_table(Side& side);
  void upload_items(Side& side);

  const DeviceArrays& arrays_;
  DeviceMemory& memory_;
  Side a_{.many = arrays_.many_a, .name = "matrix A", .view = arrays_.a};
  Side b_{.many = arrays_.many_b, .name = "matrix B", .view = arrays_.b};
  SettledAtEnd settled_{memory_.stream()};  // last: slots go when they have been read
};

}  // namespace spmm::cuda
