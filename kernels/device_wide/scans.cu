// Scans and selections by the whole device.
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/rows/windows.cuh"
#include "kernels/small/tasks.cuh"

namespace spmm::kernels {
namespace {

/// function(0), function(1), ...
template <class Function>
auto values_of(const Function& function) {
  return thrust::make_transform_iterator(thrust::counting_iterator<std::uint64_t>(0), function);
}

}  // namespace

template <class Terms>
std::size_t Scan<Terms>::workspace_bytes(std::uint64_t count) {
  std::size_t bytes = 0;
  check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, values_of(Terms{}), static_cast<Sum*>(nullptr),
                                      static_cast<std::int64_t>(count)),
        "scan workspace");
  return bytes;
}

template <class Terms>
void Scan<Terms>::launch(const Terms& terms, std::uint64_t count, Sum* sums, Workspace work, cudaStream_t stream,
                         const char* what) {
  check(cub::DeviceScan::ExclusiveSum(work.data, work.bytes, values_of(terms), sums, static_cast<std::int64_t>(count),
                                      stream),
        what);
}

template struct Scan<StoredRow>;
template struct Scan<NonZeroBlock>;
template struct Scan<PairsOfBlock>;
template struct Scan<CountOfRow>;
template struct Scan<TasksOfRow>;
template struct Scan<CountOfTask>;
template struct Scan<PiecesOfRow>;
template struct Scan<CountsOfPiece>;

std::size_t select_workspace_bytes(std::uint64_t count) {
  std::size_t bytes = 0;
  check(cub::DeviceSelect::Flagged(nullptr, bytes, thrust::counting_iterator<std::uint32_t>(0), values_of(OpensRow{}),
                                   static_cast<std::uint32_t*>(nullptr), static_cast<std::uint32_t*>(nullptr),
                                   static_cast<std::int64_t>(count)),
        "select workspace");
  return bytes;
}

void launch_select(const OpensRow& opens, std::uint64_t count, std::uint32_t* selected, std::uint32_t* num_selected,
                   Workspace work, cudaStream_t stream) {
  check(cub::DeviceSelect::Flagged(work.data, work.bytes, thrust::counting_iterator<std::uint32_t>(0), values_of(opens),
                                   selected, num_selected, static_cast<std::int64_t>(count), stream),
        "select");
}

}  // namespace spmm::kernels
