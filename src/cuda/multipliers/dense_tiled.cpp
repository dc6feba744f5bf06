// Dense u16 copies of A's rows per panel and of B, whole or by groups of block columns, and register tiles between
// them: the dense kernel for every device.
#include <algorithm>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/dense/launch.hpp"

namespace spmm::cuda {
namespace {

class DenseTiledMultiplier : public CBlockFiller {
 public:
  explicit DenseTiledMultiplier(const MultiplierContext& context)
      : CBlockFiller(context),
        shape_{.nb = c_.operands.nb, .m = c_.operands.m},
        group_(c_.execution.dense_columns),
        a_(c_.memory, shape_.a_bytes(c_.max_rows()), "dense rows of A"),
        b_(c_.memory, shape_.b_bytes(group_), "dense columns of B") {}

  kernels::CBlocksView fill(const plan::Panel& panel, const kernels::CBlockResults& results) override {
    const SortedOperands& operands = c_.operands;
    const auto side = static_cast<std::uint32_t>(shape_.side());
    const kernels::DenseView a{
        .data = reinterpret_cast<std::uint16_t*>(a_.data()), .num_rows = panel.num_rows * operands.m, .stride = side};
    c_.timed(Stage::multiply, [&] {
      check(cudaMemsetAsync(results.non_zero, 0, std::uint64_t{panel.num_rows} * panel.num_columns, c_.stream().get()),
            "clear flags");
      kernels::launch_expand_dense(
          operands.a_view(), false,
          {.first_row = panel.row_begin, .num_rows = panel.num_rows, .first_column = 0, .end_column = operands.nb},
          operands.m, a, c_.stream().get());
      for (std::uint32_t first = 0; first < operands.nb; first += std::min(group_, operands.nb - first)) {
        const std::uint32_t count = std::min(group_, operands.nb - first);
        const kernels::DenseView b{
            .data = reinterpret_cast<std::uint16_t*>(b_.data()),
            .num_rows = side,
            .stride = static_cast<std::uint32_t>(kernels::padded_elements(std::uint64_t{count} * operands.m))};
        if (!holds_b_) {
          kernels::launch_expand_dense(
              operands.b_view(), true,
              {.num_rows = operands.b.index.num_rows, .first_column = first, .end_column = first + count}, operands.m,
              b, c_.stream().get());
        }
        holds_b_ = group_ == operands.nb;  // all of it, for all panels
        kernels::launch_mul_dense_tiled(a, b,
                                        {.num_rows = a.num_rows,
                                         .num_columns = count * operands.m,
                                         .m = operands.m,
                                         .first_block_column = first,
                                         .num_block_columns = panel.num_columns,
                                         .results = results},
                                        c_.stream().get());
      }
    });
    return c_.all_c_blocks(panel);
  }

 private:
  kernels::DenseOperands shape_;
  std::uint32_t group_;  // block columns of B expanded at a time
  bool holds_b_ = false;
  DeviceBuffer<std::byte> a_;  // of one panel
  DeviceBuffer<std::byte> b_;  // of one group
};

}  // namespace

std::unique_ptr<Multiplier> make_dense_tiled(const MultiplierContext& context) {
  return std::make_unique<DenseTiledMultiplier>(context);
}

}  // namespace spmm::cuda
