// What cuSPARSE works on, as owners: matrices with their descriptions, in memory of the CUDA backend.
#pragma once

#include <cusparse.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cuda/device/raii.hpp"
#include "spmm/error.hpp"
#include "tools/cusparse/csr_matrix.hpp"

namespace spmm::tools {

/// The library or the device said no: a result like any other here.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void check_library(cusparseStatus_t status, const char* what) {
  if (status != CUSPARSE_STATUS_SUCCESS) throw Refusal(text(what, ": ", cusparseGetErrorString(status)));
}

using Buffer = cuda::DeviceBuffer<std::byte>;

/// Errors: Refusal if the device has no room.
inline Buffer make_buffer(cuda::DeviceMemory& memory, std::size_t bytes, const char* what) {
  try {
    return {memory, bytes, what};
  } catch (const OutOfMemory&) {
    throw Refusal(text(what, ", ", bytes, " bytes: out of memory"));
  }
}

class Handle {
 public:
  explicit Handle(const cuda::Stream& stream) {
    check_library(cusparseCreate(&handle_), "cusparseCreate");
    check_library(cusparseSetStream(handle_, stream.get()), "cusparseSetStream");
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { (void)cusparseDestroy(handle_); }

  [[nodiscard]] cusparseHandle_t get() const { return handle_; }

 private:
  cusparseHandle_t handle_ = nullptr;
};

template <class To, class From>
Buffer upload(cuda::DeviceMemory& memory, const std::vector<From>& from, const char* what) {
  const std::vector<To> values(from.begin(), from.end());
  Buffer buffer = make_buffer(memory, values.size() * sizeof(To), what);
  cuda::copy_async(buffer.data(), reinterpret_cast<const std::byte*>(values.data()), buffer.size(), memory.stream());
  memory.stream().synchronize();  // values go
  return buffer;
}

/// A matrix on the device with its description.
class DeviceCsr {
 public:
  template <class Value>
  static DeviceCsr of(cuda::DeviceMemory& memory, const CsrMatrix& matrix, const char* name) {
    DeviceCsr made;
    made.offsets_ = upload<std::int32_t>(memory, matrix.offsets, name);
    made.columns_ = upload<std::int32_t>(memory, matrix.columns, name);
    made.values_ = upload<Value>(memory, matrix.values, name);
    made.describe(matrix.rows, matrix.rows, static_cast<std::int64_t>(matrix.num_entries()), sizeof(Value));
    return made;
  }

  /// A result that has only room for its offsets.
  static DeviceCsr empty(cuda::DeviceMemory& memory, std::uint32_t rows, std::size_t value_bytes) {
    DeviceCsr made;
    made.offsets_ = make_buffer(memory, (std::size_t{rows} + 1) * sizeof(std::int32_t), "offsets of C");
    made.describe(rows, rows, 0, value_bytes);
    return made;
  }

  DeviceCsr(DeviceCsr&& other) noexcept { *this = std::move(other); }
  DeviceCsr& operator=(DeviceCsr&& other) noexcept {
    offsets_ = std::move(other.offsets_);
    columns_ = std::move(other.columns_);
    values_ = std::move(other.values_);
    std::swap(matrix_, other.matrix_);
    return *this;
  }
  DeviceCsr(const DeviceCsr&) = delete;
  DeviceCsr& operator=(const DeviceCsr&) = delete;
  ~DeviceCsr() {
    if (matrix_ != nullptr) (void)cusparseDestroySpMat(matrix_);
  }

  void make_room(cuda::DeviceMemory& memory, std::int64_t num_entries, std::size_t value_bytes) {
    const auto count = static_cast<std::size_t>(num_entries);
    columns_ = make_buffer(memory, count * sizeof(std::int32_t), "columns of C");
    values_ = make_buffer(memory, count * value_bytes, "values of C");
    check_library(cusparseCsrSetPointers(matrix_, offsets_.data(), columns_.data(), values_.data()),
                  "cusparseCsrSetPointers");
  }

  [[nodiscard]] cusparseSpMatDescr_t get() const { return matrix_; }
  [[nodiscard]] const Buffer& offsets() const { return offsets_; }
  [[nodiscard]] const Buffer& columns() const { return columns_; }
  [[nodiscard]] const Buffer& values() const { return values_; }
  [[nodiscard]] std::uint64_t bytes() const { return offsets_.size() + columns_.size() + values_.size(); }

 private:
  DeviceCsr() = default;

  void describe(std::int64_t rows, std::int64_t cols, std::int64_t entries, std::size_t value_bytes) {
    check_library(cusparseCreateCsr(&matrix_, rows, cols, entries, offsets_.data(), columns_.data(), values_.data(),
                                    CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                                    value_bytes == sizeof(double) ? CUDA_R_64F : CUDA_R_32F),
                  "cusparseCreateCsr");
  }

  Buffer offsets_;
  Buffer columns_;
  Buffer values_;
  cusparseSpMatDescr_t matrix_ = nullptr;
};

class Description {
 public:
  Description() { check_library(cusparseSpGEMM_createDescr(&description_), "cusparseSpGEMM_createDescr"); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  ~Description() { (void)cusparseSpGEMM_destroyDescr(description_); }

  [[nodiscard]] cusparseSpGEMMDescr_t get() const { return description_; }

 private:
  cusparseSpGEMMDescr_t description_ = nullptr;
};

}  // namespace spmm::tools
