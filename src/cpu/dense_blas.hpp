// The dense-blas kernel: dense panels of doubles, multiplied by a BLAS library.
#pragma once

#include <cstdint>

#include "base/run.hpp"
#include "cpu/dense_panels.hpp"
#include "cpu/prepared.hpp"
#include "spmm/plan.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// See cpu_backend.hpp. Only where blas_name() is not empty.
ProductStats multiply_dense_blas(const Prepared& product, Sink& sink, const Plan& plan, const Run& run);

/// Memory: without the library's own work space (some MB per thread).
std::uint64_t dense_blas_bytes(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan);

/// Bytes of panels that each worker of a plan may hold.
std::uint64_t dense_budget_bytes(const Plan& plan, std::uint32_t m);

}  // namespace spmm::cpu
