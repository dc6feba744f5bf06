// Many products in device memory as one whose operands have them on the diagonal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/arrays/device_arrays.hpp"
#include "cuda/device/pinned_ring.hpp"
#include "cuda/operands/upload.hpp"
#include "kernels/blocks/arrays.hpp"

namespace spmm::cuda {

/// The operands of many products, gathered to two. Work is done in the order of target.memory.stream(), behind the work
/// of the caller's stream at the moment of the call.
class GatheredProducts {
 public:
  /// Waits for the stream. All references must outlive it. Values: the ring's slots are back, and one will be again.
  /// Errors: DeviceError (memory that is not this device's), FormatError (indptr or indices of a product), OutOfMemory.
  GatheredProducts(const DeviceArrays& arrays, const UploadTarget& target, PinnedRing& ring);

  [[nodiscard]] DeviceArrays operands() const;
  /// Gives back what has been read: all but the elements of A.
  void drop_read();
  /// Makes the one result that of many products. Errors: OutOfMemory.
  void finish();

 private:
  /// One operand of all products.
  struct Side {
    const ManyMatrices& many;
    const char* name;
    DeviceBsrView view;                         // the gathered matrix
    kernels::GatherTable table{};               // of those that it is made of
    DeviceBuffer<kernels::GatherItem> items{};  // of those that are listed
    DeviceBuffer<std::byte> indptr{};
    DeviceBuffer<std::byte> indices{};
    DeviceBuffer<std::uint16_t> values{};
  };

  void set_table(Side& side, PinnedRing& ring);
  void upload_items(Side& side, PinnedRing& ring);
  void gather(kernels::ArrayFindings* findings, Side& side);

  const DeviceArrays& arrays_;
  DeviceMemory& memory_;
  StageEvents& events_;
  Side a_{.many = arrays_.many_a, .name = "matrix A", .view = arrays_.a};
  Side b_{.many = arrays_.many_b, .name = "matrix B", .view = arrays_.b};
};

}  // namespace spmm::cuda
