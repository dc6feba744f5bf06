// Tensor maps of byte planes: how bulk tensor copies find the boxes of a tile.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>

#include "kernels/check.hpp"
#include "kernels/dense/tensor_stages.cuh"
#include "kernels/views.hpp"

namespace spmm::kernels::tensor {

/// What a box takes of the planes: all of them as they lie, or the same plane of each group of 8 element rows (its
/// second coordinate is 8 * plane).
enum class BoxPlanes : std::uint8_t { all, one };

/// Boxes of `box_rows` plane rows by kDepth bytes, swizzled by 128 bytes; rows and bytes outside the planes are zero.
inline CUtensorMap make_map(const BytePlanes& planes, std::uint32_t box_rows, BoxPlanes which) {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
          "tensor map");
#else
    check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found), "tensor map");
#endif
    if (found != cudaDriverEntryPointSuccess) throw CudaError("the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  CUtensorMap map{};
  const std::uint64_t group = which == BoxPlanes::one ? 8 * planes.num_planes : 8;  // plane rows
  const cuuint64_t sizes[3] = {planes.stride_bytes, group, planes.num_rows / group};
  const cuuint64_t strides[2] = {planes.stride_bytes, group * planes.stride_bytes};
  const cuuint32_t box[3] = {kDepth, 8, box_rows / 8};
  const cuuint32_t steps[3] = {1, 1, 1};
  const CUresult status = encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, planes.data, sizes, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) throw CudaError("cuTensorMapEncodeTiled: error " + std::to_string(status));
  return map;
}

}  // namespace spmm::kernels::tensor
