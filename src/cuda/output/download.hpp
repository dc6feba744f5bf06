// Packed records on the device -> pinned ring -> sink, in panel order, while later panels compute.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/run/run.hpp"
#include "cuda/device/pinned_ring.hpp"
#include "cuda/device/raii.hpp"
#include "cuda/device/stage_events.hpp"
#include "cuda/output/common_output.hpp"
#include "kernels/views.hpp"

namespace spmm::cuda {

/// Where a multiplier writes the records of a panel.
struct PanelTarget {
  kernels::RecordPlaces records{};
  const std::uint32_t* num_before = nullptr;  // [1], device: records of panels before in the same place; null: none
  std::uint32_t* num_blocks = nullptr;        // [1]: becomes the number of records so far
  bool is_known =
      false;  // the panel has been multiplied before, with the same pattern: C blocks with pairs, zero or not
  const std::uint32_t* largest = nullptr;  // [1], device: as RecordOutput has it
  std::uint32_t least_largest = 0;
  std::uint32_t most_largest = 0;
  bool is_counted = false;  // the kernel that packs has counted the elements at the limit
};

/// One panel's records: two of them alternate, one leaves the device while the other is filled.
struct PackedPanel {
  PackedPanel(DeviceMemory& memory, std::uint64_t max_c_blocks, std::uint32_t m)
      : records(memory, max_c_blocks * output_record_bytes(m), "packed records"), num_blocks(memory.context()) {
    target.records = kernels::packed_records(reinterpret_cast<std::uint32_t*>(records.data()), m);
    target.num_blocks = num_blocks.data();
  }

  DeviceBuffer<std::byte> records;
  PinnedWord num_blocks;   // written by the device
  PanelTarget target;      // the records and their number
  Event ready;             // recorded behind the kernel that packs
  std::size_t number = 0;  // of the panel that it holds
  bool busy = false;       // handed to the downloader and not yet copied
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
  virtual void start(plan::Execution& execution, unsigned long long* num_saturated) = 0;
  /// Whether multipliers are to write the result itself, and not packed panels. Values: counted = that has been
  /// decided on.
  virtual bool takes_directly(const plan::Execution&, const plan::Statistics&) { return false; }
  /// How many packed panels are worth holding.
  [[nodiscard]] virtual std::uint64_t max_buffers() const { return 2; }
  /// Waits until the panel's buffer may be filled again. Errors: whatever stopped the taker.
  virtual void wait_until_free(PackedPanel& panel) = 0;
  /// Takes a panel whose `ready` event is recorded.
  virtual void push(PackedPanel& panel) = 0;
  /// Waits until everything is taken; returns the number of blocks. Errors: whatever stopped the taker.
  virtual std::uint64_t finish() = 0;
};

/// A thread that copies packed panels to the host in slices and hands them to the output, one panel after the other;
/// the next slice is copied while one is handed over. Where no thread can be started, push() does that itself. Threads:
/// push() and finish() from one thread.
class Downloader : public PanelTaker {
 public:
  /// Copies through the slots of `ring`, all of which are back when it goes. Values: device = number in the product.
  Downloader(CommonOutput& output, std::uint32_t device, std::uint32_t m, PinnedRing& ring, StageEvents& events,
             const Run& run);
  /// Waits until the sink has released every slot.
  ~Downloader() override;

  void start(plan::Execution& execution, unsigned long long* num_saturated) override;
  /// Together as much memory as two panels of the largest size.
  [[nodiscard]] std::uint64_t max_buffers() const override { return output_.num_devices() == 1 ? 2 : 16; }
  void wait_until_free(PackedPanel& panel) override;
  void push(PackedPanel& panel) override;
  std::uint64_t finish() override;

 private:
  /// A slice on its way to a slot.
  struct Copy {
    PackedPanel* panel = nullptr;
    std::byte* slot = nullptr;
    std::uint64_t bytes = 0;
    const Event* done = nullptr;
  };
  /// Source: S3 to /dev/null on an H200: 145 us for a slice whose copy took 80; the host's part is hidden by the next
  /// copy.
  static constexpr std::size_t kMaxCopies = 2;

  void work();
  [[nodiscard]] PackedPanel* next_panel();
  void send(PackedPanel& panel);
  [[nodiscard]] bool start_copy(PackedPanel& panel, std::uint64_t at, std::uint64_t bytes);
  void hand_over();
  void end(PackedPanel& panel);
  void drop_copies() noexcept;
  std::byte* take_slot(bool may_wait);
  void put_back(std::byte* slot) noexcept;
  void check_failure() const;
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready);

  CommonOutput& output_;
  std::uint32_t device_;
  std::uint64_t record_bytes_;
  StageEvents& events_;
  const Run& run_;
  Stream stream_;
  std::uint64_t slot_bytes_;
  PinnedRing& ring_;
  unsigned long long* num_saturated_ = nullptr;
  std::uint64_t num_blocks_ = 0;
  // Of the thread that sends:
  std::deque<Copy> copies_;  // in the order of the stream
  std::array<Event, kMaxCopies> copied_;
  std::size_t num_copies_ = 0;  // that have been started so far

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PackedPanel*> queue_;
  std::size_t num_busy_ = 0;  // panels that have not been handed over whole
  std::exception_ptr failure_;
  bool closing_ = false;  // no more panels
  bool stopped_ = false;  // those in the queue are dropped
  std::jthread thread_;   // last: it uses everything else
};

}  // namespace spmm::cuda
