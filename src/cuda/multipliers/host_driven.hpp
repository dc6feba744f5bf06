// The oldest variant's host side: walks the lists of every C block and launches one result block at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/run/run.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/operands/operands.hpp"

namespace spmm::cuda {

/// Index lists of both operands on the host, and the pair lists on their way to the device.
class HostDriven {
 public:
  HostDriven(const DeviceOperands& operands, const Stream& stream);

  /// Multiplies all C blocks of a panel; waits for the stream. Errors: Interrupted.
  void multiply(const DeviceOperands& operands, const kernels::CBlocksView& c_blocks,
                const kernels::CBlockResults& results, const Stream& stream, const Run& run);

 private:
  struct HostRows {
    std::vector<std::uint32_t> offsets;
    std::vector<std::uint32_t> columns;
  };
  static HostRows fetch_rows(const CompressedRows& rows, const Stream& stream);
  void merge(const kernels::CBlock& c_block);

  HostRows a_;
  HostRows b_;
  std::vector<kernels::BlockPair> matches_;  // of the current C block
  PinnedBuffer<kernels::BlockPair> pairs_;   // of C blocks in flight, read by the device in place
};

}  // namespace spmm::cuda
