// The library's products; built without cuBLAS, library_stub.cpp stands in.
#pragma once

#include <memory>
#include <vector>

#include "tools/dense/dense_operands.hpp"

namespace spmm::dense {

/// Types the library multiplies; none where it was not found.
std::vector<Type> library_types();

/// f32: SGEMM in single precision. s8: GEMM of bytes, B transposed and sides padded beforehand. u16: DGEMM of doubles,
/// conversion and saturation in every run.
/// Errors: CudaError from the library.
std::unique_ptr<Product> make_library_product(const ProductInput& input);

}  // namespace spmm::dense
