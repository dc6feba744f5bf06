// A dense product whose operands lie on the device, ready to run again and again.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "cuda/device/raii.hpp"
#include "tools/dense/dense_multiply.hpp"

namespace spmm::dense {

/// What a product is made from. The memory and the stream must outlive it.
struct ProductInput {
  Type type = Type::f32;
  Shape shape;
  std::span<const std::byte> a;  // [rows, inner], host
  std::span<const std::byte> b;  // [inner, cols], host
  cuda::DeviceMemory& memory;
  const cuda::Stream& stream;
};

class Product {
 public:
  virtual ~Product() = default;

  /// Puts one product on the stream.
  virtual void run() = 0;
  /// Puts the copy of C to the host on the stream. Shapes: c [rows, cols], host.
  virtual void download(std::span<std::byte> c) = 0;
  [[nodiscard]] virtual Resources resources() const { return {}; }
};

/// A host array on the device; waits for the copy, so that the buffer may go at any time.
inline cuda::DeviceBuffer<std::byte> upload(const ProductInput& input, std::span<const std::byte> from,
                                            const char* what) {
  cuda::DeviceBuffer<std::byte> to(input.memory, from.size(), what);
  cuda::copy_async(to.data(), from.data(), from.size(), input.stream);
  input.stream.synchronize();
  return to;
}

}  // namespace spmm::dense
