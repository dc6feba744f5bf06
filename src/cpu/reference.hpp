// The reference kernel: the definition, one thread.
#pragma once

#include <cstdint>

#include "base/run.hpp"
#include "spmm/plan.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// See cpu_backend.hpp.
ProductStats multiply_reference(const Source& source_a, const Source& source_b, Sink& sink, const Plan& plan,
                                const Run& run);
std::uint64_t reference_bytes(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan);

}  // namespace spmm::cpu
