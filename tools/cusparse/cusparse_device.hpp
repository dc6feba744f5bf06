// What cuSPARSE works on, as owners: memory in the order of a stream, matrices with their descriptions.
#pragma once

#include <cuda_runtime_api.h>
#include <cusparse.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "tools/cusparse/csr_matrix.hpp"

namespace spmm::tools {

/// The library or the device said no: a result like any other here.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void check_cuda(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw Refusal(what + ": " + cudaGetErrorString(status));
}

inline void check_library(cusparseStatus_t status, const char* what) {
  if (status != CUSPARSE_STATUS_SUCCESS) throw Refusal(text(what, ": ", cusparseGetErrorString(status)));
}

struct Stream {
  cudaStream_t get = nullptr;
  Stream() { check_cuda(cudaStreamCreateWithFlags(&get, cudaStreamNonBlocking), "stream"); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { (void)cudaStreamDestroy(get); }
};

struct Event {
  cudaEvent_t get = nullptr;
  Event() { check_cuda(cudaEventCreate(&get), "event"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { (void)cudaEventDestroy(get); }
};

/// Device memory in the order of a stream; what is given back is kept for the next run.
class Buffer {
 public:
  Buffer() = default;
  Buffer(cudaStream_t stream, std::size_t bytes, const char* what) : stream_(stream), bytes_(bytes) {
    if (bytes == 0) return;
    cudaError_t status = cudaMallocAsync(&data_, bytes, stream);
    if (status == cudaErrorMemoryAllocation) {  // what earlier runs have left may lie in pieces
      (void)cudaGetLastError();
      (void)cudaStreamSynchronize(stream);
      int device = 0;
      cudaMemPool_t pool = nullptr;
      (void)cudaGetDevice(&device);
      (void)cudaDeviceGetDefaultMemPool(&pool, device);
      (void)cudaMemPoolTrimTo(pool, 0);
      status = cudaMallocAsync(&data_, bytes, stream);
    }
    check_cuda(status, text(what, ", ", bytes, " bytes"));
  }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(stream_, other.stream_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr) (void)cudaFreeAsync(data_, stream_);
  }

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::size_t bytes_ = 0;
};

class Handle {
 public:
  explicit Handle(cudaStream_t stream) {
    check_library(cusparseCreate(&handle_), "cusparseCreate");
    check_library(cusparseSetStream(handle_, stream), "cusparseSetStream");
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { (void)cusparseDestroy(handle_); }

  [[nodiscard]] cusparseHandle_t get() const { return handle_; }

 private:
  cusparseHandle_t handle_ = nullptr;
};

template <class To, class From>
Buffer upload(cudaStream_t stream, const std::vector<From>& from, const char* what) {
  const std::vector<To> values(from.begin(), from.end());
  Buffer buffer(stream, values.size() * sizeof(To), what);
  check_cuda(cudaMemcpyAsync(buffer.data(), values.data(), buffer.bytes(), cudaMemcpyDefault, stream), what);
  check_cuda(cudaStreamSynchronize(stream), what);  // values go
  return buffer;
}

/// A matrix on the device with its description.
class DeviceCsr {
 public:
  template <class Value>
  static DeviceCsr of(cudaStream_t stream, const CsrMatrix& matrix, const char* name) {
    DeviceCsr made;
    made.offsets_ = upload<std::int32_t>(stream, matrix.offsets, name);
    made.columns_ = upload<std::int32_t>(stream, matrix.columns, name);
    made.values_ = upload<Value>(stream, matrix.values, name);
    made.describe(matrix.rows, matrix.rows, static_cast<std::int64_t>(matrix.num_entries()), sizeof(Value));
    return made;
  }

  /// A result that has only room for its offsets.
  static DeviceCsr empty(cudaStream_t stream, std::uint32_t rows, std::size_t value_bytes) {
    DeviceCsr made;
    made.offsets_ = Buffer(stream, (std::size_t{rows} + 1) * sizeof(std::int32_t), "offsets of C");
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

  void make_room(cudaStream_t stream, std::int64_t num_entries, std::size_t value_bytes) {
    const auto count = static_cast<std::size_t>(num_entries);
    columns_ = Buffer(stream, count * sizeof(std::int32_t), "columns of C");
    values_ = Buffer(stream, count * value_bytes, "values of C");
    check_library(cusparseCsrSetPointers(matrix_, offsets_.data(), columns_.data(), values_.data()),
                  "cusparseCsrSetPointers");
  }

  [[nodiscard]] cusparseSpMatDescr_t get() const { return matrix_; }
  [[nodiscard]] const Buffer& offsets() const { return offsets_; }
  [[nodiscard]] const Buffer& columns() const { return columns_; }
  [[nodiscard]] const Buffer& values() const { return values_; }
  [[nodiscard]] std::uint64_t bytes() const { return offsets_.bytes() + columns_.bytes() + values_.bytes(); }

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
