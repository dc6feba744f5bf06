// Dense u16 copies of A's rows per panel and of B, whole or by groups of block columns, and register tiles between
// them: the dense kernel for every device.
#include <algorithm>

#include "cuda/multiplier.hpp"
#include "kernels/dense.hpp"

namespace spmm::cuda {
namespace {

constexpr std::uint32_t kAlignment = 8;           // elements of a dense row: 16 bytes
constexpr std::uint32_t kSmallestGroup = 128;     // columns of a tile of the kernel
constexpr std::uint64_t kLargestSide = 1u << 31;  // of a dense operand, rows and columns

constexpr std::uint64_t padded(std::uint64_t elements) {
  return (elements + kAlignment - 1) / kAlignment * kAlignment;
}

class DenseTiledMultiplier : public CBlockFiller {
 public:
  explicit DenseTiledMultiplier(const MultiplierContext& context)
      : CBlockFiller(context), side_(padded(std::uint64_t{context.operands.nb} * context.operands.m)) {
    const Operands& operands = c_.operands;
    std::uint64_t max_rows = 0;
    for (const plan::Panel& panel : c_.panels) max_rows = std::max<std::uint64_t>(max_rows, panel.num_rows);
    if (side_ > kLargestSide) refuse("the matrices are too large to be expanded");
    a_ = {c_.memory, max_rows * operands.m * side_, "dense rows of A"};
    group_ = group_columns(c_.memory.free_bytes());
    if (group_ == 0) refuse("not even one block column of B fits as a dense matrix");
    b_ = {c_.memory, side_ * padded(std::uint64_t{group_} * operands.m), "dense columns of B"};
  }

  kernels::CBlocksView fill(const plan::Panel& panel, const kernels::CBlockResults& results) override {
    const Operands& operands = c_.operands;
    const kernels::DenseView a{
        .data = a_.data(), .num_rows = panel.num_rows * operands.m, .stride = static_cast<std::uint32_t>(side_)};
    kernels::DenseTarget target{
        .num_rows = a.num_rows, .m = operands.m, .num_block_columns = panel.num_columns, .results = results};
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      check(cudaMemsetAsync(results.non_zero, 0, std::uint64_t{panel.num_rows} * panel.num_columns, c_.stream.get()),
            "clear flags");
      kernels::launch_expand_dense_a(operands.a_view(), panel.row_begin, panel.num_rows, operands.m, a,
                                     c_.stream.get());
      for (std::uint32_t first = 0; first < panel.num_columns; first += std::min(group_, panel.num_columns - first)) {
        const std::uint32_t count = std::min(group_, panel.num_columns - first);
        const kernels::DenseView b = expand_b(panel.column_begin + first, count);
        target.first_block_column = first;
        target.num_columns = count * operands.m;
        kernels::launch_mul_dense_tiled(a, b, target, c_.stream.get());
      }
    });
    return all_c_blocks(panel, operands.num_c_columns());
  }

 private:
  [[noreturn]] static void refuse(const char* problem) {
    throw OutOfMemory("--kernel dense-tiled", problem, "raise --memory-limit, or leave --kernel out");
  }

  /// Block columns of B that fit as a dense matrix: all, or as many as fill whole tiles, or fewer; 0 where none do.
  [[nodiscard]] std::uint32_t group_columns(std::uint64_t free_bytes) const {
    const std::uint64_t m = c_.operands.m;
    const std::uint64_t columns = free_bytes / (side_ * sizeof(std::uint16_t)) / kAlignment * kAlignment;
    const std::uint64_t blocks = std::min<std::uint64_t>(columns / m, c_.operands.nb);
    const std::uint64_t step = std::max<std::uint64_t>(1, kSmallestGroup / m);
    if (blocks < c_.operands.nb && blocks >= step) return static_cast<std::uint32_t>(blocks / step * step);
    return static_cast<std::uint32_t>(blocks);
  }

  /// Block columns [first, first + count) of B; only those that are not there yet are expanded.
  kernels::DenseView expand_b(std::uint32_t first, std::uint32_t count) {
    const kernels::DenseView view{.data = b_.data(),
                                  .num_rows = static_cast<std::uint32_t>(side_),
                                  .stride = static_cast<std::uint32_t>(padded(std::uint64_t{count} * c_.operands.m))};
    if (first == held_first_ && count == held_count_) return view;
    kernels::launch_expand_dense_b(c_.operands.b_view(), first, count, c_.operands.m, view, c_.stream.get());
    held_first_ = first;
    held_count_ = count;
    return view;
  }

  std::uint64_t side_;       // rows of dense B and columns of dense A, padded
  std::uint32_t group_ = 0;  // block columns of B expanded at a time
  std::uint32_t held_first_ = 0;
  std::uint32_t held_count_ = 0;  // block columns that b_ holds
  DeviceBuffer<std::uint16_t> a_;
  DeviceBuffer<std::uint16_t> b_;
};

}  // namespace

std::unique_ptr<Multiplier> make_dense_tiled_multiplier(const MultiplierContext& context) {
  return std::make_unique<DenseTiledMultiplier>(context);
}

}  // namespace spmm::cuda
