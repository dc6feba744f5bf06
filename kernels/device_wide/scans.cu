// Scans and selections by the whole device.
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include "kernels/blocks/scan_terms.cuh"
#include "kernels/check.hpp"
#include "kernels/device_wide.cuh"
#include "kernels/rows/windows.cuh"
#include "kernels/small/tasks.cuh"

namespace spmm::kernels {
namespace {

template <class Result, class Function, class Index>
Index index_of(Result (Function::*)(Index) const);

/// function(0), function(1), ...
template <class Function>
auto values_of(const Function& function) {
  using Index = decltype(index_of(&Function::operator()));
  return thrust::make_transform_iterator(thrust::counting_iterator<Index>(0), function);
}

}  // namespace

template <class Terms, class Sum>
std::size_t scan_workspace_bytes(std::uint64_t count) {
  std::size_t bytes = 0;
  check(cub::DeviceScan::ExclusiveSum(nullptr, bytes, values_of(Terms{}), static_cast<Sum*>(nullptr),
                                      static_cast<std::int64_t>(count)),
        "scan workspace");
  return bytes;
}

template <class Terms, class Sum>
void launch_scan(const Terms& terms, std::uint64_t count, Sum* sums, Workspace work, cudaStream_t stream,
                 const char* what) {
  check(cub::DeviceScan::ExclusiveSum(work.data, work.bytes, values_of(terms), sums, static_cast<std::int64_t>(count),
                                      stream),
        what);
}

// Rows of a sort; C blocks that are not zero; pairs of blocks and of rows; pairs and C blocks of rows of chains; tasks
// of small-blocks and their records; pieces of row-rank, windows.
template std::size_t scan_workspace_bytes<StoredRow, std::uint64_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<NonZeroBlock, std::uint32_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<PairsOfBlock, std::uint64_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<PairsOfRow, std::uint64_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<CountOfRow, std::uint32_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<TasksOfRow, std::uint32_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<CountOfTask, std::uint32_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<PiecesOfRow, std::uint32_t>(std::uint64_t);
template std::size_t scan_workspace_bytes<CountsOfPiece, std::uint64_t>(std::uint64_t);
template void launch_scan(const StoredRow&, std::uint64_t, std::uint64_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const NonZeroBlock&, std::uint64_t, std::uint32_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const PairsOfBlock&, std::uint64_t, std::uint64_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const PairsOfRow&, std::uint64_t, std::uint64_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const CountOfRow&, std::uint64_t, std::uint32_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const TasksOfRow&, std::uint64_t, std::uint32_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const CountOfTask&, std::uint64_t, std::uint32_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const PiecesOfRow&, std::uint64_t, std::uint32_t*, Workspace, cudaStream_t, const char*);
template void launch_scan(const CountsOfPiece&, std::uint64_t, std::uint64_t*, Workspace, cudaStream_t, const char*);

template <class Flags>
std::size_t select_workspace_bytes(std::uint64_t count) {
  std::size_t bytes = 0;
  check(cub::DeviceSelect::Flagged(nullptr, bytes, thrust::counting_iterator<std::uint32_t>(0), values_of(Flags{}),
                                   static_cast<std::uint32_t*>(nullptr), static_cast<std::uint32_t*>(nullptr),
                                   static_cast<std::int64_t>(count)),
        "select workspace");
  return bytes;
}

template <class Flags>
void launch_select(const Flags& flags, std::uint64_t count, Selected selected, Workspace work, cudaStream_t stream,
                   const char* what) {
  check(cub::DeviceSelect::Flagged(work.data, work.bytes, thrust::counting_iterator<std::uint32_t>(0), values_of(flags),
                                   selected.numbers, selected.count, static_cast<std::int64_t>(count), stream),
        what);
}

template std::size_t select_workspace_bytes<OpensRow>(std::uint64_t);
template void launch_select(const OpensRow&, std::uint64_t, Selected, Workspace, cudaStream_t, const char*);

}  // namespace spmm::kernels
