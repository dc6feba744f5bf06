// Which instruction set the kernels use, and how they want their operands packed.
#pragma once

#include <string_view>

#include "cpu/simd/layout.hpp"

namespace spmm::cpu {

using plan::Isa;

std::string_view isa_name(Isa isa);

/// The widest one of this machine, or a lower one forced by the environment variable SPMM_CPU_ISA
/// ("portable", on x86-64 "avx2" and "avx512-vnni"). Errors: UsageError for an unknown name or one this machine does
/// not have.
Isa choose_isa();

}  // namespace spmm::cpu
