// From counters of pairs per column to C blocks.
#pragma once

#include <cstdint>

#include "cpu/isa.hpp"
#include "cpu/kernels.hpp"

namespace spmm::cpu {

/// Entries past the last C block that a list of columns may overwrite.
inline constexpr std::uint32_t kCBlocksAhead = 16;

/// Lists the columns that have pairs, in order, and puts the number of the first pair of each column in the place of
/// its counter. Returns the number of C blocks.
/// Shapes: position [num_columns], aligned to 64 bytes: pairs of each column; c_blocks has room for kCBlocksAhead more
/// than there are.
using ListColumns = std::uint32_t (*)(std::uint32_t* position, std::uint32_t num_columns, CBlock* c_blocks);

std::uint32_t list_columns_portable(std::uint32_t* position, std::uint32_t num_columns, CBlock* c_blocks);
ListColumns list_columns_avx512();

ListColumns choose_list_columns(Isa isa);

}  // namespace spmm::cpu
