// Some rows of the result, examined before the exact decision.
#include "cuda/operands/operands.hpp"

#include "kernels/blocks/launch.hpp"

namespace spmm::cuda {

plan::RowSample sample_rows(const SortedOperands& sorted, DeviceMemory& memory, const Stream& stream) {
  const DeviceBuffer<kernels::RowSampleCounts> counts(memory, 1, "row sample");
  kernels::launch_sample_rows(
      {.a = sorted.a.index.view(), .b = sorted.b.index.view(), .b_row_index = sorted.b_row_index.data()}, counts.data(),
      stream.get());
  const kernels::RowSampleCounts found = fetch(counts.data(), stream);
  return {.num_rows = kernels::kSampledRows,
          .pairs = static_cast<double>(found.pairs),
          .c_blocks = static_cast<double>(found.c_blocks),
          .columns = static_cast<double>(found.columns)};
}

}  // namespace spmm::cuda
