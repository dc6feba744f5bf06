#include "cpu/simd/column_list.hpp"

namespace spmm::cpu {
namespace {

std::uint32_t list_columns(std::uint32_t* position, std::uint32_t num_columns, CBlock* c_blocks) {
  std::uint32_t next = 0;
  std::uint32_t num_c_blocks = 0;
  for (std::uint32_t col = 0; col < num_columns; ++col) {
    const std::uint32_t count = position[col];
    position[col] = next;
    next += count;
    c_blocks[num_c_blocks] = {.col = col, .end = next};  // overwritten unless the column occurs
    num_c_blocks += count != 0 ? 1 : 0;
  }
  return num_c_blocks;
}

}  // namespace

ColumnLister portable_lister() {
  return {.list = list_columns, .columns_per_pair = 4};
}

ColumnLister choose_lister(Isa isa) {
  return isa == Isa::avx512_vnni ? avx512_lister() : portable_lister();
}

}  // namespace spmm::cpu
