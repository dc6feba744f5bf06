// Byte planes of B once, of A's lines per panel, and the dense tensor-core kernel between them.
#include <algorithm>

#include "cuda/multiplier.hpp"
#include "plan/kernel_choice.hpp"

namespace spmm::cuda {
namespace {

class DenseMultiplier : public Multiplier {
 public:
  explicit DenseMultiplier(const MultiplierContext& context)
      : c_(context), num_planes_(plan::num_byte_planes(context.operands.max_element)) {
    const Operands& operands = c_.operands;
    std::uint32_t max_rows = 0;
    for (const plan::Panel& panel : c_.panels) {
      max_rows = std::max(max_rows, panel.num_rows);
      if (panel.num_columns != operands.nb) {
        throw OutOfMemory("--kernel dense-tensor", "a panel of the result does not hold a whole block row",
                          "raise --memory-limit, or leave --kernel out");
      }
    }
    a_bytes_ = {c_.memory, plan::plane_bytes(operands.nb, max_rows, operands.m, num_planes_), "byte planes of A"};
    b_bytes_ = {c_.memory, plan::plane_bytes(operands.nb, operands.nb, operands.m, num_planes_), "byte planes of B"};
    c_.events.timed(Stage::build, c_.stream, [&] {
      kernels::launch_expand_planes(operands.b_view(), 0, operands.b.num_lines, operands.m, false,
                                    planes(b_bytes_, operands.nb), c_.stream.get());
    });
  }

  kernels::TilesView multiply(const plan::Panel& panel, const kernels::TileResults& results) override {
    const Operands& operands = c_.operands;
    const kernels::BytePlanes a = planes(a_bytes_, panel.num_rows);
    const kernels::BytePlanes b = planes(b_bytes_, operands.nb);
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      kernels::launch_expand_planes(operands.a_view(), panel.row_begin, panel.num_rows, operands.m, true, a,
                                    c_.stream.get());
      kernels::launch_mul_dense_tensor(a, b, panel.num_rows * operands.m, panel.num_columns * operands.m, operands.m,
                                       results, c_.stream.get());
    });
    return all_tiles(panel, operands.num_tile_columns());
  }

 private:
  [[nodiscard]] kernels::BytePlanes planes(const DeviceBuffer<std::uint8_t>& bytes, std::uint32_t num_lines) const {
    const std::uint64_t stride = plan::plane_stride_bytes(c_.operands.nb, c_.operands.m);
    return {.data = bytes.data(),
            .num_rows = plan::plane_bytes(c_.operands.nb, num_lines, c_.operands.m, num_planes_) / stride,
            .stride_bytes = stride,
            .num_planes = num_planes_};
  }

  MultiplierContext c_;
  std::uint32_t num_planes_;
  DeviceBuffer<std::uint8_t> a_bytes_;
  DeviceBuffer<std::uint8_t> b_bytes_;
};

}  // namespace

std::unique_ptr<Multiplier> make_dense_multiplier(const MultiplierContext& context) {
  return std::make_unique<DenseMultiplier>(context);
}

}  // namespace spmm::cuda
