// The dense-blas kernel: dense panels of doubles, multiplied by a BLAS library.
#pragma once

#include "base/run/run.hpp"
#include "cpu/operands/prepared.hpp"
#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// See cpu_backend.hpp. Only where blas_name() is not empty.
ProductStats multiply_dense_blas(const Prepared& product, Sink& sink, const plan::Execution& execution, const Run& run);

}  // namespace spmm::cpu
