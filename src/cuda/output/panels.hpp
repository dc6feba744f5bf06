// Panels on their way from a multiplier to whoever takes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "cuda/device/raii.hpp"
#include "kernels/views.hpp"
#include "plan/choice.hpp"
#include "spmm/types.hpp"

namespace spmm::cuda {

/// Where a multiplier writes the records of a panel, and what it is to know and tells of them.
struct PanelTarget {
  kernels::RecordOutput out{};  // but what belongs to the multiplier
  bool is_known = false;        // multiplied before, with the same pattern: C blocks with pairs, zero or not
  bool is_counted = false;      // the kernel that packs has counted the elements at the limit
};

/// One panel's records: two of them alternate, one leaves the device while the other is filled.
struct PackedPanel {
  PackedPanel(DeviceMemory& memory, std::uint64_t max_c_blocks, std::uint32_t m)
      : records(memory, max_c_blocks * output_record_bytes(m), "packed records"),
        num_blocks(memory.context().tables()) {
    target.out.to = kernels::packed_records(reinterpret_cast<std::uint32_t*>(records.data()), m);
    target.out.num_blocks = num_blocks.data();
  }

  DeviceBuffer<std::byte> records;
  PinnedTable num_blocks;      // written by the device
  PanelTarget target;          // the records and their number
  std::optional<Event> ready;  // behind the kernel that packs, if another stream takes it
  std::size_t number = 0;      // of the panel that it holds
};

/// Where the panels of a device go: to the host, or to arrays of a caller. Threads: one.
class PanelTaker {
 public:
  PanelTaker() = default;
  PanelTaker(const PanelTaker&) = delete;
  PanelTaker& operator=(const PanelTaker&) = delete;
  virtual ~PanelTaker() = default;

  /// Before the first panel. Leaves those panels in the execution that this device computes.
  /// Shapes: num_saturated [1], device: to be raised by the elements at the limit of panels in which they are not
  /// counted yet; null: none can be there.
  virtual void start(plan::Choice& execution, unsigned long long* num_saturated) = 0;
  /// Whether multipliers are to write the result itself, and not packed panels. Values: counted = that has been
  /// decided on.
  virtual bool takes_directly(const plan::Choice&, const plan::Counts&) { return false; }
  /// Waits until the panel, the next one in turn, may be filled again. Errors: whatever stopped the taker.
  virtual void wait_until_free(PackedPanel& panel) = 0;
  /// Takes a panel that has been put on the stream.
  virtual void push(PackedPanel& panel) = 0;
  /// Waits until everything is taken; returns the number of blocks. Errors: whatever stopped the taker.
  virtual std::uint64_t finish() = 0;

  std::deque<PackedPanel> panels;  ///< that are filled and pushed in turn; they go when nothing takes them any more
};

}  // namespace spmm::cuda
