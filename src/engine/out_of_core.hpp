// Products whose operands do not fit the memory limit: range by range, from a scratch file.
#pragma once

#include <span>
#include <string>

#include "base/records/inputs.hpp"
#include "base/run/output.hpp"
#include "cuda/backend.hpp"
#include "plan/choice.hpp"

namespace spmm {

/// Multiplies range by range; records reach the output in order. Both operands are sorted by row into a scratch file in
/// one of the scratch folders, best first. A range is as many rows of A as fit with the rows of B that they meet. If a
/// single row does not fit, a range is as much of A as fits with a slab of these rows of B, and meets one slab after
/// the other; their results wait in the scratch file and are added up. Values: choice = a decision out of core, which
/// is set to what ran. Memory: choice.host_limit_bytes. Errors: FormatError; OutOfMemory (no scratch file, or the disk
/// is full); IoError; what multiply_at_once() throws.
ProductStats multiply_out_of_core(const Inputs& inputs, Output& output, const cuda::DeviceRun& run,
                                  std::span<const std::string> scratch_folders, plan::Choice& choice);

}  // namespace spmm
