// The calls of cuSPARSE.
#include "tools/cusparse/cusparse_product.hpp"

#include <cuda_runtime_api.h>
#include <cusparse.h>

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "cuda/device/context.hpp"
#include "cuda/device/raii.hpp"
#include "kernels/check.hpp"
#include "spmm/error.hpp"
#include "tools/cusparse/cusparse_device.hpp"

namespace spmm::tools {
namespace {

/// The product in elements of one type.
template <class Value>
class CsrProduct {
 public:
  CsrProduct(cuda::DeviceContext& context, const CsrMatrix& a, const CsrMatrix& b, float chunk_fraction)
      : rows_(a.rows),
        chunk_fraction_(chunk_fraction),
        stream_(context),
        memory_(stream_, UINT64_MAX),
        handle_(stream_),
        a_(DeviceCsr::of<Value>(memory_, a, "A")),
        b_(DeviceCsr::of<Value>(memory_, b, "B")) {}

  void run(int algorithm, CusparseResult& result, const OnResult& on_result) {
    algorithm_ = algorithm == 1 ? CUSPARSE_SPGEMM_ALG1 : algorithm == 2 ? CUSPARSE_SPGEMM_ALG2 : CUSPARSE_SPGEMM_ALG3;
    const cuda::Event events[4] = {cuda::Event(true), cuda::Event(true), cuda::Event(true), cuda::Event(true)};
    const Description description;
    DeviceCsr c = DeviceCsr::empty(memory_, rows_, sizeof(Value));
    events[0].record(stream_);
    const Buffer first = estimate_work(description, c);
    Buffer second = algorithm_ == CUSPARSE_SPGEMM_ALG1 ? Buffer() : estimate_memory(description, c, first, result);
    events[1].record(stream_);
    if (algorithm_ == CUSPARSE_SPGEMM_ALG1) {
      std::size_t bytes = 0;
      compute(description, c, bytes, nullptr);
      second = make_buffer(memory_, bytes, "second work buffer");
    }
    std::size_t bytes = second.size();
    compute(description, c, bytes, second.data());
    events[2].record(stream_);
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t entries = 0;
    check_library(cusparseSpMatGetSize(c.get(), &rows, &cols, &entries), "cusparseSpMatGetSize");
    c.make_room(memory_, entries, sizeof(Value));
    check_library(cusparseSpGEMM_copy(handle_.get(), kAsIs, kAsIs, &one_, a_.get(), b_.get(), &zero_, c.get(), kType,
                                      algorithm_, description.get()),
                  "cusparseSpGEMM_copy");
    events[3].record(stream_);
    stream_.synchronize();
    result.runs.push_back(
        {between(events[0], events[1]), between(events[1], events[2]), between(events[2], events[3])});
    result.work_bytes = std::max<std::uint64_t>(result.work_bytes, first.size() + second.size());
    result.result_bytes = c.bytes();
    result.num_entries = static_cast<std::uint64_t>(entries);
    if (on_result) hand_out(c, static_cast<std::size_t>(entries), on_result);
  }

 private:
  static constexpr cusparseOperation_t kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
  static constexpr cudaDataType kType = sizeof(Value) == sizeof(double) ? CUDA_R_64F : CUDA_R_32F;

  static double between(const cuda::Event& begin, const cuda::Event& end) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "event");
    return ms;
  }

  Buffer estimate_work(const Description& description, const DeviceCsr& c) {
    const auto call = [&](std::size_t& bytes, void* buffer) {
      check_library(cusparseSpGEMM_workEstimation(handle_.get(), kAsIs, kAsIs, &one_, a_.get(), b_.get(), &zero_,
                                                  c.get(), kType, algorithm_, description.get(), &bytes, buffer),
                    "cusparseSpGEMM_workEstimation");
    };
    std::size_t bytes = 0;
    call(bytes, nullptr);
    Buffer buffer = make_buffer(memory_, bytes, "first work buffer");
    call(bytes, buffer.data());
    return buffer;
  }

  /// The buffer of the computation; the third one is needed for the estimate only.
  Buffer estimate_memory(const Description& description, const DeviceCsr& c, const Buffer& first,
                         CusparseResult& result) {
    const auto call = [&](std::size_t& third, void* buffer, std::size_t* second) {
      check_library(
          cusparseSpGEMM_estimateMemory(handle_.get(), kAsIs, kAsIs, &one_, a_.get(), b_.get(), &zero_, c.get(), kType,
                                        algorithm_, description.get(), chunk_fraction_, &third, buffer, second),
          "cusparseSpGEMM_estimateMemory");
    };
    std::size_t third_bytes = 0;
    std::size_t second_bytes = 0;
    call(third_bytes, nullptr, nullptr);
    {
      const Buffer third = make_buffer(memory_, third_bytes, "buffer of the estimate");
      call(third_bytes, third.data(), &second_bytes);
      result.work_bytes = std::max<std::uint64_t>(result.work_bytes, first.size() + third.size());
    }
    return make_buffer(memory_, second_bytes, "second work buffer");
  }

  void compute(const Description& description, const DeviceCsr& c, std::size_t& bytes, void* buffer) {
    check_library(cusparseSpGEMM_compute(handle_.get(), kAsIs, kAsIs, &one_, a_.get(), b_.get(), &zero_, c.get(), kType,
                                         algorithm_, description.get(), &bytes, buffer),
                  "cusparseSpGEMM_compute");
  }

  void hand_out(const DeviceCsr& c, std::size_t num_entries, const OnResult& on_result) const {
    std::vector<std::int32_t> offsets(std::size_t{rows_} + 1);
    std::vector<std::int32_t> columns(num_entries);
    std::vector<Value> values(num_entries);
    const auto download = [&](void* to, const Buffer& from) {
      cuda::copy_async(static_cast<std::byte*>(to), from.data(), from.size(), stream_);
    };
    download(offsets.data(), c.offsets());
    download(columns.data(), c.columns());
    download(values.data(), c.values());
    stream_.synchronize();
    on_result(offsets, columns, std::vector<double>(values.begin(), values.end()));
  }

  std::uint32_t rows_;
  cusparseSpGEMMAlg_t algorithm_ = CUSPARSE_SPGEMM_DEFAULT;
  float chunk_fraction_;
  Value one_ = 1;
  Value zero_ = 0;
  cuda::Stream stream_;
  cuda::DeviceMemory memory_;
  Handle handle_;
  DeviceCsr a_;
  DeviceCsr b_;
};

}  // namespace

std::span<const CusparseWay> cusparse_ways() {
  static const std::vector<CusparseWay> kWays = {{"f64-alg1", true, 1},  {"f64-alg2", true, 2},
                                                 {"f64-alg3", true, 3},  {"f32-alg1", false, 1},
                                                 {"f32-alg2", false, 2}, {"f32-alg3", false, 3}};
  return kWays;
}

class CusparseRunner::State {
 public:
  State(const CsrMatrix& a, const CsrMatrix& b, const CusparseOptions& options) : a_(a), b_(b), options_(options) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    try {
      if (!context_) return;
      const cuda::DeviceGuard guard(options_.device);
      doubles_.reset();
      floats_.reset();
    } catch (...) {  // no device to give anything back to
    }
  }

  void run(const CusparseWay& way, const OnResult& on_result, CusparseResult& result) {
    if (!context_) context_.emplace(options_.device);  // its memory stays with it: later runs ask the driver for none
    const cuda::DeviceGuard guard(options_.device);
    if (way.is_double) {
      floats_.reset();
      run_all(doubles_, way, on_result, result);
    } else {
      doubles_.reset();
      run_all(floats_, way, on_result, result);
    }
  }

  [[nodiscard]] int device() const { return options_.device; }

 private:
  template <class Value>
  void run_all(std::optional<CsrProduct<Value>>& product, const CusparseWay& way, const OnResult& on_result,
               CusparseResult& result) {
    if (!product) product.emplace(*context_, a_, b_, options_.chunk_fraction);
    product->run(way.algorithm, result, on_result);
    result.runs.clear();  // that was the warm-up
    for (unsigned r = 0; r < options_.num_runs; ++r) product->run(way.algorithm, result, {});
  }

  const CsrMatrix& a_;
  const CsrMatrix& b_;
  CusparseOptions options_;
  std::optional<cuda::DeviceContext> context_;
  std::optional<CsrProduct<double>> doubles_;
  std::optional<CsrProduct<float>> floats_;
};

CusparseRunner::CusparseRunner(const CsrMatrix& a, const CsrMatrix& b, const CusparseOptions& options)
    : state_(std::make_unique<State>(a, b, options)) {}

CusparseRunner::~CusparseRunner() = default;

CusparseResult CusparseRunner::run(const CusparseWay& way, const OnResult& on_result) {
  CusparseResult result;
  try {
    state_->run(way, on_result, result);
  } catch (const Refusal& e) {
    result.refusal = e.what();
  } catch (const CudaError& e) {
    result.refusal = e.what();
  }
  if (!result.refusal.empty()) result.runs.clear();
  return result;
}

bool CusparseRunner::is_well() const {
  try {
    const cuda::DeviceGuard guard(state_->device());
    return cudaDeviceSynchronize() == cudaSuccess;
  } catch (const std::runtime_error&) {
    return false;
  }
}

std::string cusparse_device_text(int device) {
  cudaDeviceProp properties{};
  const cudaError_t status = cudaGetDeviceProperties(&properties, device);
  if (status != cudaSuccess) {
    throw DeviceError(text("CUDA device ", device), cudaGetErrorString(status), "run it where there is a GPU");
  }
  int major = 0;
  int minor = 0;
  int patch = 0;
  (void)cusparseGetProperty(MAJOR_VERSION, &major);
  (void)cusparseGetProperty(MINOR_VERSION, &minor);
  (void)cusparseGetProperty(PATCH_LEVEL, &patch);
  return text(properties.name, ", cuSPARSE ", major, ".", minor, ".", patch);
}

}  // namespace spmm::tools
