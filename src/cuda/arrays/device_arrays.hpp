// Operands and result of a product in device memory, as the engine and the pipeline see them; no CUDA header needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spmm/device.hpp"
#include "spmm/error.hpp"

namespace spmm::cuda {

/// A device as products of one engine use it; device/context.hpp.
class DeviceContext;

/// One operand of many products: matrices that are listed, or a stack. Copies refer to the caller's.
class ManyMatrices {
 public:
  ManyMatrices() = default;
  ManyMatrices(std::span<const DevicePair> products, DeviceBsrView DevicePair::*operand)
      : count_(products.size()), products_(products.data()), operand_(operand) {}
  ManyMatrices(const DeviceBsrStack& stack, std::uint64_t count) : count_(count), stack_(&stack) {}

  [[nodiscard]] std::uint64_t size() const { return count_; }
  /// Null: they are listed.
  [[nodiscard]] const DeviceBsrStack* stack() const { return stack_; }

  [[nodiscard]] DeviceBsrView operator[](std::uint64_t x) const {
    if (stack_ == nullptr) return products_[x].*operand_;
    const auto& [first, strides] = *stack_;
    DeviceBsrView view = first;
    view.indptr = moved(first.indptr, x * strides.indptr * first.index_bytes);
    view.indices = moved(first.indices, x * strides.indices * first.index_bytes);
    view.values = moved(first.values, x * strides.values * element_bytes(first.type));
    return view;
  }

 private:
  /// Null, of arrays without elements, stays null.
  template <class T>
  static const T* moved(const T* pointer, std::uint64_t bytes) {
    const auto* const from = reinterpret_cast<const std::byte*>(pointer);
    return pointer == nullptr ? nullptr : reinterpret_cast<const T*>(from + bytes);
  }

  std::uint64_t count_ = 0;
  const DevicePair* products_ = nullptr;
  DeviceBsrView DevicePair::*operand_ = nullptr;
  const DeviceBsrStack* stack_ = nullptr;
};

/// Operands and result of a product in device memory.
struct DeviceArrays {
  const DeviceBsrView& a;
  const DeviceBsrView& b;
  const DeviceCall& call;
  DeviceBsrMatrix* out = nullptr;
  bool is_pattern = false;          // values come later
  bool is_timed = true;             // a report is wanted
  ManyMatrices many_a{};            // of many products: a and b have the sums of their sizes, and no arrays
  ManyMatrices many_b{};            // as many
  DeviceBsrBatch* batch = nullptr;  // their result; out is a part of it
};

/// The product of a pattern: DevicePlan.
class PlannedProduct {
 public:
  PlannedProduct() = default;
  PlannedProduct(const PlannedProduct&) = delete;
  PlannedProduct& operator=(const PlannedProduct&) = delete;
  virtual ~PlannedProduct() = default;

  virtual void multiply(const void* a, const void* b, void* c, CUstream_st* stream, const void* alpha,
                        const void* beta) = 0;
  [[nodiscard]] virtual std::uint64_t count_saturated(const std::uint32_t* c, CUstream_st* stream) = 0;
};

/// A list of pairs by C block instead of the kernels of u16.
inline bool wants_chains(ElementType type, const DeviceCall& call) {
  return type != ElementType::u16 || call.c;
}

/// Errors: UsageError if a product of u16 is to be scaled.
inline void check_not_scaled(const void* alpha, const void* beta) {
  if (alpha == nullptr && beta == nullptr) return;
  throw UsageError("alpha, beta", "are not for elements of u16", "leave them out, or convert the operands");
}

/// Before anything else of such a product. Errors: UsageError (the stream is being captured).
void check_stream(CUstream_st* stream);

/// Integers of a result in host memory. Waits for work on the result's arrays alone if the product is complete.
/// Shapes: indices [count] of index_bytes, device.
std::vector<std::uint64_t> fetch_indices(const void* indices, std::uint64_t count, std::uint32_t index_bytes,
                                         int device);

}  // namespace spmm::cuda
