// The sink of a product and the devices that compute it: each hands its panels over in turn, or at their places.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/run/output.hpp"
#include "base/run/run.hpp"
#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// Another device has failed; never leaves this folder.
struct DeviceStopped {};

/// What the devices of a product know of each other; there may be one. Threads: any.
/// A panel waits for earlier ones: to be counted where the sink takes places, to be handed over where it does not.
/// Every device goes through its panels in the common order, so the first unfinished panel of all never waits.
class CommonOutput {
 public:
  /// Values: m = side of the blocks.
  CommonOutput(Output& output, std::uint32_t m, std::uint32_t num_devices, const Run& run)
      : output_(output),
        record_bytes_(output_record_bytes(m)),
        num_devices_(num_devices),
        run_(run),
        at_places_(output.takes_places()) {}

  [[nodiscard]] std::uint32_t num_devices() const { return num_devices_; }

  /// All devices must have come to the same panels. Leaves those of the device in the execution, with their numbers.
  void start(std::uint32_t device, plan::Execution& execution);

  /// Counts a panel, and waits for its turn or until its place is known. Errors: OutOfMemory (too many blocks),
  /// Interrupted, DeviceStopped.
  void begin(std::size_t panel, std::uint64_t num_blocks);
  /// Its records, in order, by one thread of its device; as Sink::write().
  void append(std::size_t panel, std::span<const std::byte> records, Release release);
  void end(std::size_t panel);

  /// Stops all devices. The first error stays.
  void fail(std::exception_ptr error) noexcept;
  /// Errors: DeviceStopped once a device has failed.
  void check() const;
  /// Errors: the first one.
  void rethrow_failure() const;

 private:
  struct Place {
    std::optional<std::uint64_t> num_blocks{};
    std::uint64_t next_block = 0;  ///< of the result, that is handed over next; once all panels before are counted
    bool has_ended = false;
  };
  void check_locked() const;

  Output& output_;
  std::uint64_t record_bytes_;
  std::uint32_t num_devices_;
  const Run& run_;
  const bool at_places_;
  std::mutex sink_mutex_;  // the sink takes one caller at a time
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::exception_ptr failure_;
  bool has_started_ = false;
  std::vector<plan::Panel> panels_;  // of the whole product
  std::vector<Place> places_;        // [panels], of which next_block belongs to who hands the panel over
  std::size_t num_placed_ = 0;       // panels in front of which all are counted
  std::size_t num_ended_ = 0;        // panels up to the first one that has not been handed over
  std::uint64_t num_blocks_ = 0;
  std::uint64_t num_rows_ = 0;  // of A
  std::uint64_t rows_done_ = 0;
};

}  // namespace spmm::cuda
