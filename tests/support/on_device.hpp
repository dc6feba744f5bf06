// Arrays of a caller in device memory, there and back.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/check.hpp"
#include "spmm/device.hpp"
#include "spmm/engine.hpp"
#include "support/arrays.hpp"
#include "support/oracle.hpp"

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

/// A matrix in arrays of its own in device memory, with indices and elements of these types.
template <class Index, class T = std::uint16_t>
class DeviceMatrix {
 public:
  explicit DeviceMatrix(const BsrMatrix<T>& matrix)
      : indptr_(std::vector<Index>(matrix.indptr.begin(), matrix.indptr.end())),
        indices_(std::vector<Index>(matrix.indices.begin(), matrix.indices.end())),
        values_(matrix.data),
        view_{.rows = matrix.rows,
              .cols = matrix.cols,
              .m = matrix.m,
              .num_blocks = matrix.indices.size(),
              .indptr = indptr_.data(),
              .indices = indices_.data(),
              .index_bytes = sizeof(Index),
              .values = values_.data(),
              .type = kElementType<T>} {}
  explicit DeviceMatrix(const BlockMatrix& matrix) : DeviceMatrix(as_bsr(matrix)) {}

  [[nodiscard]] const DeviceBsrView& view() const { return view_; }

 private:
  OnDevice<Index> indptr_;
  OnDevice<Index> indices_;
  OnDevice<T> values_;
  DeviceBsrView view_;
};

/// Values: with the pattern of a result, and values that may lie elsewhere.
template <class Sum, class Index>
BsrMatrix<Sum> result_on_host(const DeviceBsrMatrix& c, const void* values) {
  const auto indptr = on_host<Index>(c.indptr.get(), c.rows / c.m + 1);
  const auto indices = on_host<Index>(c.indices.get(), c.num_blocks);
  return {.rows = c.rows,
          .cols = c.cols,
          .m = c.m,
          .indptr = {indptr.begin(), indptr.end()},
          .indices = {indices.begin(), indices.end()},
          .data = on_host<Sum>(values, c.num_blocks * c.m * c.m)};
}

/// The blocks of a result in a matrix of n x n elements, those of zeros, too. Values: nullptr = those of the result.
template <class Index>
ProductMatrix blocks_on_host(const DeviceBsrMatrix& c, std::uint32_t n, const std::uint32_t* values = nullptr) {
  const auto bsr = result_on_host<std::uint32_t, Index>(c, values != nullptr ? values : c.values.get());
  return as_blocks(bsr, n);
}

inline ProductMatrix without_zero_blocks(const ProductMatrix& product) {
  ProductMatrix rest{.n = product.n, .m = product.m, .index = {}, .values = {}};
  const std::size_t elements = std::size_t{product.m} * product.m;
  for (std::size_t x = 0; x < product.index.size(); ++x) {
    const std::uint32_t* const block = product.block(x);
    if (std::all_of(block, block + elements, [](std::uint32_t value) { return value == 0; })) continue;
    rest.index.push_back(product.index[x]);
    rest.values.insert(rest.values.end(), block, block + elements);
  }
  return rest;
}

/// The product by a plan, in a matrix of n x n elements, multiplied once and then by a graph that was captured before.
/// A's values come after the plan: it is made of none, or of zeros where `has_values`. Errors: std::runtime_error where
/// the two differ or saturated elements are counted wrong.
template <class Index>
ProductMatrix multiply_by_plan(Engine& engine, const BsrMatrix<std::uint16_t>& a, const BsrMatrix<std::uint16_t>& b,
                               std::uint32_t n, const ProductOptions& options, bool has_values) {
  const DeviceMatrix<Index> on_a(a);
  const DeviceMatrix<Index> on_b(b);
  const OnDevice<std::uint16_t> zeros(std::vector<std::uint16_t>(a.data.size() + 1));
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "stream");
  ProductMatrix products[2];
  {
    DeviceBsrView pattern = on_a.view();
    pattern.values = has_values ? zeros.data() : nullptr;
    DevicePlan plan = engine.plan(pattern, on_b.view(), {.stream = stream}, options);
    const std::size_t num_values = plan.pattern().num_blocks * a.m * a.m;
    const OnDevice<std::uint32_t> values(std::vector<std::uint32_t>(num_values + 1));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    plan.multiply(on_a.view().values, on_b.view().values, values.data(), stream);
    check(cudaStreamEndCapture(stream, &graph), "capture");
    check(cudaGraphInstantiate(&replay, graph, 0), "graph");
    for (const bool by_graph : {false, true}) {
      check(cudaMemsetAsync(values.data(), 1, num_values * sizeof(std::uint32_t), stream), "poison");
      if (by_graph) {
        check(cudaGraphLaunch(replay, stream), "graph");
      } else {
        plan.multiply(on_a.view().values, on_b.view().values, values.data(), stream);
      }
      check(cudaStreamSynchronize(stream), "product");
      ProductMatrix& product = products[by_graph ? 1 : 0];
      product = without_zero_blocks(blocks_on_host<Index>(plan.pattern(), n, values.data()));
      if (plan.count_saturated(values.data(), stream) != num_saturated(product)) {
        throw std::runtime_error("saturated elements of the plan: wrong");
      }
    }
    check(cudaGraphExecDestroy(replay), "graph");
    check(cudaGraphDestroy(graph), "graph");
  }
  check(cudaStreamDestroy(stream), "stream");
  if (products[0] != products[1]) throw std::runtime_error("a graph gives another product");
  return products[0];
}

}  // namespace spmm::test
