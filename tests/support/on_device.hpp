// Arrays of a caller in device memory, there and back.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/check.hpp"

namespace spmm::test {

/// An array of the caller in device memory; none where it is empty.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) {
    if (values.empty()) return;
    check(cudaMalloc(reinterpret_cast<void**>(&data_), values.size() * sizeof(T)), "device memory");
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
  }
  OnDevice(OnDevice&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  OnDevice& operator=(OnDevice&&) = delete;
  ~OnDevice() { cudaFree(data_); }
  [[nodiscard]] T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

template <class T>
std::vector<T> on_host(const void* data, std::size_t count) {
  std::vector<T> values(count);
  if (count != 0) check(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), "copy");
  return values;
}

}  // namespace spmm::test
