// Byte planes of A's rows per panel and of B, whole or by groups of block columns, and the dense tensor-core kernel
// between them.
#include <algorithm>

#include "cuda/multipliers/multiplier.hpp"
#include "kernels/dense/launch.hpp"
#include "plan/memory/dense_plan.hpp"

namespace spmm::cuda {
namespace {

/// Byte planes of some rows of an operand.
struct Planes {
  enum class Content : std::uint8_t { nothing, high, all };
  DeviceBuffer<std::uint8_t> bytes;
  Content content = Content::nothing;
};

class DenseMultiplier : public CBlockFiller {
 public:
  explicit DenseMultiplier(const MultiplierContext& context)
      : CBlockFiller(context), num_planes_(context.execution.num_planes), group_(context.execution.dense_columns) {
    const DeviceOperands& operands = c_.operands;
    std::uint32_t max_rows = 0;
    bool any_prefilter = false;
    for (const plan::Panel& panel : c_.execution.panels) {
      max_rows = std::max(max_rows, panel.num_rows);
      any_prefilter |= panel.prefilter;
    }
    a_.bytes = {c_.memory, plan::plane_bytes(operands.nb, max_rows, operands.m, num_planes_), "byte planes of A"};
    b_.bytes = {c_.memory, plan::plane_bytes(operands.nb, group_, operands.m, num_planes_), "byte planes of B"};
    if (!any_prefilter) return;
    const std::uint64_t c_blocks = kernels::num_prefilter_tiles(max_rows * operands.m, operands.nb * operands.m);
    saturated_ = {c_.memory, c_blocks, "saturated tiles"};
    num_left_ = {c_.memory, 1, "count"};
  }

  kernels::CBlocksView fill(const plan::Panel& panel, const kernels::CBlockResults& results) override {
    const DeviceOperands& operands = c_.operands;
    kernels::DenseTarget target{.num_rows = panel.num_rows * operands.m,
                                .m = operands.m,
                                .num_block_columns = panel.num_columns,
                                .results = results};
    c_.events.timed(Stage::multiply, c_.stream, [&] {
      check(cudaMemsetAsync(results.non_zero, 0, std::uint64_t{panel.num_rows} * panel.num_columns, c_.stream.get()),
            "clear flags");
      a_.content = Planes::Content::nothing;
      for (std::uint32_t first = 0; first < operands.nb; first += group_) {
        const std::uint32_t count = std::min(group_, operands.nb - first);
        if (group_ != operands.nb) b_.content = Planes::Content::nothing;
        target.first_block_column = first;
        target.num_columns = count * operands.m;
        multiply(panel, target, first, count);
      }
    });
    return all_c_blocks(panel, operands.nb);
  }

 private:
  /// Block columns [first, first + count) of a panel. What high bytes prove saturated is finished with them; a panel
  /// depends on nothing that another one found.
  void multiply(const plan::Panel& panel, const kernels::DenseTarget& target, std::uint32_t first,
                std::uint32_t count) {
    kernels::SaturatedTiles saturated;
    if (panel.prefilter) {
      saturated = {.done = saturated_.data(), .num_left = num_left_.data()};
      const kernels::BytePlanes a = planes_of_a(panel, Planes::Content::high);
      const kernels::BytePlanes b = planes_of_b(first, count, Planes::Content::high);
      kernels::launch_saturation_prefilter(a, b, target, saturated, c_.stream.get());
      if (fetch(num_left_.data(), c_.stream) == 0) return;
    }
    const kernels::BytePlanes a = planes_of_a(panel, Planes::Content::all);
    const kernels::BytePlanes b = planes_of_b(first, count, Planes::Content::all);
    kernels::launch_mul_dense_tensor(a, b, target, saturated, c_.stream.get());
  }

  kernels::BytePlanes planes_of_a(const plan::Panel& panel, Planes::Content wanted) {
    const kernels::PlaneRange range{.first_row = panel.row_begin, .num_rows = panel.num_rows};
    return planes(a_, c_.operands.a_view(), range, panel.num_rows, wanted);
  }

  /// Block columns [first, first + count).
  kernels::BytePlanes planes_of_b(std::uint32_t first, std::uint32_t count, Planes::Content wanted) {
    const kernels::PlaneRange range{
        .along_row = false, .num_rows = c_.operands.b.num_rows, .first_column = first, .end_column = first + count};
    return planes(b_, c_.operands.b_view(), range, count, wanted);
  }

  /// Expands what is wanted and not there yet. Shapes: num_rows block rows of planes.
  kernels::BytePlanes planes(Planes& planes, const kernels::OperandView& operand, const kernels::PlaneRange& range,
                             std::uint32_t num_rows, Planes::Content wanted) const {
    const bool missing = planes.content < wanted;
    if (missing) planes.content = wanted;
    const std::uint32_t num_planes = planes.content == Planes::Content::all ? num_planes_ : 1;
    const std::uint64_t stride = plan::plane_stride_bytes(c_.operands.nb, c_.operands.m);
    const kernels::BytePlanes view{
        .data = planes.bytes.data(),
        .num_rows = plan::plane_bytes(c_.operands.nb, num_rows, c_.operands.m, num_planes) / stride,
        .stride_bytes = stride,
        .num_planes = num_planes,
        .shift = num_planes == 3 ? kernels::half_plane_bits(c_.operands.max_element)
                                 : plan::low_plane_bits(c_.operands.max_element)};
    if (missing) kernels::launch_expand_planes(operand, range, c_.operands.m, view, c_.stream.get());
    return view;
  }

  std::uint32_t num_planes_;
  std::uint32_t group_;                   // block columns of B in planes at a time
  Planes a_;                              // of one panel
  Planes b_;                              // of one group
  DeviceBuffer<std::uint8_t> saturated_;  // [C blocks of a panel]
  DeviceBuffer<std::uint32_t> num_left_;  // [1]
};

}  // namespace

std::unique_ptr<Multiplier> make_dense_multiplier(const MultiplierContext& context) {
  return std::make_unique<DenseMultiplier>(context);
}

}  // namespace spmm::cuda
