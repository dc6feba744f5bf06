// cuBLAS and cuBLASLt: what a user would pick instead. The only file that needs them.
#include "tools/dense/dense_library.hpp"

#include <cublasLt.h>
#include <cublas_v2.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/dense/launch.hpp"

namespace spmm::dense {
namespace {

using cuda::DeviceBuffer;

void check_library(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw CudaError(std::string(what) + ": " + cublasGetStatusString(status));
}

/// A handle bound to a stream.
class Handle {
 public:
  explicit Handle(const cuda::Stream& stream) {
    check_library(cublasCreate(&handle_), "cuBLAS handle");
    check_library(cublasSetStream(handle_, stream.get()), "cuBLAS stream");
    check_library(cublasSetMathMode(handle_, CUBLAS_DEFAULT_MATH), "cuBLAS math mode");  // no TF32
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { (void)cublasDestroy(handle_); }

  [[nodiscard]] cublasHandle_t get() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

/// The library counts by columns: C as it sees it is our C transposed, B^T * A^T.
class SingleProduct : public Product {
 public:
  explicit SingleProduct(const ProductInput& input)
      : shape_(input.shape),
        stream_(input.stream),
        handle_(input.stream),
        a_(upload(input, input.a, "A")),
        b_(upload(input, input.b, "B")),
        c_(input.memory, std::uint64_t{shape_.rows} * shape_.cols, "C") {}

  void run() override {
    const float one = 1;
    const float zero = 0;
    check_library(
        cublasSgemm_64(handle_.get(), CUBLAS_OP_N, CUBLAS_OP_N, shape_.cols, shape_.rows, shape_.inner, &one,
                       reinterpret_cast<const float*>(b_.data()), shape_.cols,
                       reinterpret_cast<const float*>(a_.data()), shape_.inner, &zero, c_.data(), shape_.cols),
        "cublasSgemm");
  }

  void download(std::span<std::byte> c) override {
    cuda::copy_async(c.data(), reinterpret_cast<const std::byte*>(c_.data()), c.size(), stream_);
  }

 private:
  Shape shape_;
  const cuda::Stream& stream_;
  Handle handle_;
  DeviceBuffer<std::byte> a_;
  DeviceBuffer<std::byte> b_;
  DeviceBuffer<float> c_;
};

/// u16 by way of doubles, K in pieces whose sums doubles hold exactly.
class DoubleProduct : public Product {
 public:
  explicit DoubleProduct(const ProductInput& input)
      : shape_(input.shape),
        stream_(input.stream),
        handle_(input.stream),
        a_(upload(input, input.a, "A")),
        b_(upload(input, input.b, "B")),
        wide_a_(input.memory, std::uint64_t{shape_.rows} * shape_.inner, "A in doubles"),
        wide_b_(input.memory, std::uint64_t{shape_.inner} * shape_.cols, "B in doubles"),
        wide_c_(input.memory, std::uint64_t{shape_.rows} * shape_.cols, "C in doubles"),
        c_(input.memory, wide_c_.size(), "C") {}

  void run() override {
    constexpr std::uint32_t kMaxInner = 1u << 21;  // 2^21 * 65535^2 < 2^53
    const double one = 1;
    const double zero = 0;
    const auto* const a = reinterpret_cast<const std::uint16_t*>(a_.data());
    const auto* const b = reinterpret_cast<const std::uint16_t*>(b_.data());
    kernels::launch_widen_to_f64(a, wide_a_.size(), wide_a_.data(), stream_.get());
    kernels::launch_widen_to_f64(b, wide_b_.size(), wide_b_.data(), stream_.get());
    for (std::uint64_t first = 0; first < shape_.inner; first += kMaxInner) {
      const std::uint64_t inner = std::min<std::uint64_t>(kMaxInner, shape_.inner - first);
      check_library(
          cublasDgemm_64(handle_.get(), CUBLAS_OP_N, CUBLAS_OP_N, shape_.cols, shape_.rows,
                         static_cast<std::int64_t>(inner), &one, wide_b_.data() + first * shape_.cols, shape_.cols,
                         wide_a_.data() + first, shape_.inner, &zero, wide_c_.data(), shape_.cols),
          "cublasDgemm");
      kernels::launch_saturate_f64(wide_c_.data(), wide_c_.size(), first != 0, c_.data(), stream_.get());
    }
  }

  void download(std::span<std::byte> c) override {
    cuda::copy_async(c.data(), reinterpret_cast<const std::byte*>(c_.data()), c.size(), stream_);
  }

 private:
  Shape shape_;
  const cuda::Stream& stream_;
  Handle handle_;
  DeviceBuffer<std::byte> a_;
  DeviceBuffer<std::byte> b_;
  DeviceBuffer<double> wide_a_;
  DeviceBuffer<double> wide_b_;
  DeviceBuffer<double> wide_c_;
  DeviceBuffer<std::uint32_t> c_;
};

/// A matrix as cuBLASLt describes it: columns of `rows` elements, one after the other.
class Layout {
 public:
  Layout(cudaDataType type, std::uint64_t rows, std::uint64_t columns) {
    check_library(cublasLtMatrixLayoutCreate(&layout_, type, rows, columns, static_cast<std::int64_t>(rows)),
                  "cuBLASLt layout");
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  ~Layout() { (void)cublasLtMatrixLayoutDestroy(layout_); }

  [[nodiscard]] cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

/// First operand transposed, sums of bytes in 32 bits.
class Operation {
 public:
  Operation() {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check_library(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32I, CUDA_R_32I), "cuBLASLt operation");
    check_library(
        cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
        "cuBLASLt operation");
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() { (void)cublasLtMatmulDescDestroy(operation_); }

  [[nodiscard]] cublasLtMatmulDesc_t get() const { return operation_; }

 private:
  cublasLtMatmulDesc_t operation_ = nullptr;
};

/// B^T with zeros behind its rows and columns. Shapes: b [inner, cols], result [padded_cols, padded_inner].
std::vector<std::byte> transpose_padded(std::span<const std::byte> b, Shape shape, std::uint64_t padded_cols,
                                        std::uint64_t padded_inner) {
  constexpr std::uint64_t kTile = 64;  // a line of cache per row
  std::vector<std::byte> out(padded_cols * padded_inner);
  for (std::uint64_t first_k = 0; first_k < shape.inner; first_k += kTile) {
    for (std::uint64_t first_c = 0; first_c < shape.cols; first_c += kTile) {
      const std::uint64_t end_k = std::min<std::uint64_t>(first_k + kTile, shape.inner);
      const std::uint64_t end_c = std::min<std::uint64_t>(first_c + kTile, shape.cols);
      for (std::uint64_t k = first_k; k < end_k; ++k) {
        for (std::uint64_t c = first_c; c < end_c; ++c) out[c * padded_inner + k] = b[k * shape.cols + c];
      }
    }
  }
  return out;
}

constexpr std::uint64_t padded(std::uint64_t side) {
  constexpr std::uint64_t kMultiple = 16;  // what the byte kernels of the library take
  return (side + kMultiple - 1) / kMultiple * kMultiple;
}

class ByteProduct : public Product {
 public:
  explicit ByteProduct(const ProductInput& input)
      : shape_(input.shape),
        rows_(padded(shape_.rows)),
        inner_(padded(shape_.inner)),
        cols_(padded(shape_.cols)),
        stream_(input.stream),
        handle_(input.stream),
        a_(input.memory, rows_ * inner_, "A"),
        b_(input.memory, cols_ * inner_, "B transposed"),
        c_(input.memory, rows_ * cols_, "C"),
        work_(input.memory, kWorkBytes, "work space of cuBLASLt"),
        b_layout_(CUDA_R_8I, inner_, cols_),
        a_layout_(CUDA_R_8I, inner_, rows_),
        c_layout_(CUDA_R_32I, cols_, rows_) {
    check(cudaMemsetAsync(a_.data(), 0, a_.size(), stream_.get()), "clear A");
    check(cudaMemcpy2DAsync(a_.data(), inner_, input.a.data(), shape_.inner, shape_.inner, shape_.rows,
                            cudaMemcpyDefault, stream_.get()),
          "copy A");
    const std::vector<std::byte> b = transpose_padded(input.b, shape_, cols_, inner_);
    cuda::copy_async(b_.data(), b.data(), b.size(), stream_);
    stream_.synchronize();  // b goes
    choose_algorithm();
  }

  void run() override {
    const std::int32_t one = 1;
    const std::int32_t zero = 0;
    check_library(cublasLtMatmul(library(), operation_.get(), &one, b_.data(), b_layout_.get(), a_.data(),
                                 a_layout_.get(), &zero, c_.data(), c_layout_.get(), c_.data(), c_layout_.get(),
                                 &algorithm_, work_.data(), work_.size(), stream_.get()),
                  "cublasLtMatmul");
  }

  void download(std::span<std::byte> c) override {
    const std::size_t row_bytes = std::size_t{shape_.cols} * sizeof(std::int32_t);
    check(cudaMemcpy2DAsync(c.data(), row_bytes, c_.data(), cols_ * sizeof(std::int32_t), row_bytes, shape_.rows,
                            cudaMemcpyDefault, stream_.get()),
          "copy C");
  }

 private:
  static constexpr std::uint64_t kWorkBytes = 64u << 20;

  /// A handle of cuBLAS is one of cuBLASLt too.
  [[nodiscard]] cublasLtHandle_t library() const { return reinterpret_cast<cublasLtHandle_t>(handle_.get()); }

  /// The library's first proposal for B^T (transposed) * A^T.
  void choose_algorithm() {
    cublasLtMatmulPreference_t preference = nullptr;
    check_library(cublasLtMatmulPreferenceCreate(&preference), "cuBLASLt preference");
    cublasLtMatmulHeuristicResult_t found{};
    int num_found = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                 &kWorkBytes, sizeof(kWorkBytes));
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = cublasLtMatmulAlgoGetHeuristic(library(), operation_.get(), b_layout_.get(), a_layout_.get(),
                                              c_layout_.get(), c_layout_.get(), preference, 1, &found, &num_found);
    }
    (void)cublasLtMatmulPreferenceDestroy(preference);
    check_library(status, "cuBLASLt algorithm");
    if (num_found == 0) throw CudaError("cuBLASLt has no algorithm for bytes of this shape");
    algorithm_ = found.algo;
  }

  Shape shape_;
  std::uint64_t rows_;
  std::uint64_t inner_;
  std::uint64_t cols_;
  const cuda::Stream& stream_;
  Handle handle_;
  DeviceBuffer<std::byte> a_;     // [rows_, inner_]
  DeviceBuffer<std::byte> b_;     // [cols_, inner_]
  DeviceBuffer<std::int32_t> c_;  // [rows_, cols_]
  DeviceBuffer<std::byte> work_;
  Layout b_layout_;
  Layout a_layout_;
  Layout c_layout_;
  Operation operation_;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

std::vector<Type> library_types() {
  return {Type::f32, Type::u16, Type::s8};
}

std::unique_ptr<Product> make_library_product(const ProductInput& input) {
  if (input.type == Type::f32) return std::make_unique<SingleProduct>(input);
  if (input.type == Type::u16) return std::make_unique<DoubleProduct>(input);
  return std::make_unique<ByteProduct>(input);
}

}  // namespace spmm::dense
