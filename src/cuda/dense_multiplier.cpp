// Byte planes of A's lines per panel and of B, whole or by groups of block columns, and the dense tensor-core kernel
// between them.
#include <algorithm>

#include "cuda/multiplier.hpp"
#include "plan/dense_plan.hpp"

namespace spmm::cuda {
namespace {

class DenseMultiplier : public TileFiller {
 public:
  explicit DenseMultiplier(const MultiplierContext& context)
      : TileFiller(context), num_planes_(plan::num_byte_planes(context.operands.max_element)) {
    const Operands& operands = c_.operands;
    std::uint32_t max_rows = 0;
    for (const plan::Panel& panel : c_.panels) {
      max_rows = std::max(max_rows, panel.num_rows);
      if (panel.num_columns != operands.nb) refuse("a panel of the result does not hold a whole block row");
    }
    a_bytes_ = {c_.memory, plan::plane_bytes(operands.nb, max_rows, operands.m, num_planes_), "byte planes of A"};
    group_ = plan::dense_group_columns(operands.nb, operands.m, num_planes_, c_.memory.free_bytes());
    if (group_ == 0) refuse("not even a group of its block columns fits");
    b_bytes_ = {c_.memory, plan::plane_bytes(operands.nb, group_, operands.m, num_planes_), "byte planes of B"};
    if (group_ == operands.nb) c_.events.timed(Stage::build, c_.stream, [&] { expand_b(0, group_); });
  }

  kernels::TilesView fill(const plan::Panel& panel, const kernels::TileResults& results) override {
    const Operands& operands = c_.operands;
    const kernels::BytePlanes a = planes(a_bytes_, panel.num_rows);
    kernels::DenseTarget target{.num_rows = panel.num_rows * operands.m,
                                .m = operands.m,
                                .tile_columns = panel.num_columns,
                                .results = results};
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      check(cudaMemsetAsync(results.non_zero, 0, std::uint64_t{panel.num_rows} * panel.num_columns, c_.stream.get()),
            "clear flags");
      kernels::launch_expand_planes(operands.a_view(), {.first_line = panel.row_begin, .num_lines = panel.num_rows},
                                    operands.m, a, c_.stream.get());
      for (std::uint32_t first = 0; first < operands.nb; first += group_) {
        const std::uint32_t count = std::min(group_, operands.nb - first);
        if (group_ != operands.nb) expand_b(first, count);
        target.first_tile = first;
        target.num_columns = count * operands.m;
        kernels::launch_mul_dense_tensor(a, planes(b_bytes_, count), target, c_.stream.get());
      }
    });
    return all_tiles(panel, operands.num_tile_columns());
  }

 private:
  [[noreturn]] static void refuse(const char* problem) {
    throw OutOfMemory("--kernel dense-tensor", problem, "raise --memory-limit, or leave --kernel out");
  }

  /// Planes of block columns [first, first + count) of B.
  void expand_b(std::uint32_t first, std::uint32_t count) {
    const Operands& operands = c_.operands;
    kernels::launch_expand_planes(
        operands.b_view(),
        {.along_line = false, .num_lines = operands.b.num_lines, .first_inner = first, .end_inner = first + count},
        operands.m, planes(b_bytes_, count), c_.stream.get());
  }

  [[nodiscard]] kernels::BytePlanes planes(const DeviceBuffer<std::uint8_t>& bytes, std::uint32_t num_lines) const {
    const std::uint64_t stride = plan::plane_stride_bytes(c_.operands.nb, c_.operands.m);
    return {.data = bytes.data(),
            .num_rows = plan::plane_bytes(c_.operands.nb, num_lines, c_.operands.m, num_planes_) / stride,
            .stride_bytes = stride,
            .num_planes = num_planes_};
  }

  std::uint32_t num_planes_;
  std::uint32_t group_ = 0;  // block columns of B in planes at a time
  DeviceBuffer<std::uint8_t> a_bytes_;
  DeviceBuffer<std::uint8_t> b_bytes_;
};

}  // namespace

std::unique_ptr<Multiplier> make_dense_multiplier(const MultiplierContext& context) {
  return std::make_unique<DenseMultiplier>(context);
}

}  // namespace spmm::cuda
