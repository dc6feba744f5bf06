// The reference kernel: the definition, one thread.
#pragma once

#include "base/run/output.hpp"
#include "base/run/run.hpp"
#include "plan/choice.hpp"
#include "spmm/stream.hpp"

namespace spmm::cpu {

/// See cpu_backend.hpp.
ProductStats multiply_reference(const Source& source_a, const Source& source_b, Output& output,
                                const plan::Choice& choice, const Run& run);

}  // namespace spmm::cpu
