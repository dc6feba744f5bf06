// Where the packed panels of a device go: to the sink, or to what several devices share of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// Another device has failed; never leaves this folder.
struct DeviceStopped {};

/// Packed panels that a device holds at most where several devices share a product; together as much memory as two
/// panels of the largest size.
inline constexpr std::uint64_t kMaxPanelBuffers = 16;

/// The output of one device. Threads: start() and check() from the thread that computes, before and at the same time as
/// the others, which come from one thread, panel after panel.
class PanelOutput {
 public:
  PanelOutput() = default;
  PanelOutput(const PanelOutput&) = delete;
  PanelOutput& operator=(const PanelOutput&) = delete;
  virtual ~PanelOutput() = default;

  /// Before the first panel. Leaves those panels in the execution, as they are or in pieces, that this device computes.
  virtual void start(plan::Execution& execution, const plan::Statistics& statistics) = 0;

  /// How many packed panels are worth holding.
  [[nodiscard]] virtual std::uint64_t max_buffers() const { return 2; }

  /// Whether it says itself how many rows are done: panels come in another order than that of the rows.
  [[nodiscard]] virtual bool reports_progress() const { return false; }

  /// Panels are numbered from 0 as they stand in the execution; begin() may wait for those of other devices.
  /// Errors: OutOfMemory (too many blocks), Interrupted.
  virtual void begin(std::size_t panel, std::uint64_t num_blocks) = 0;
  /// Its records, in order; as Sink::write().
  virtual void append(std::size_t panel, std::span<const std::byte> records, Release release) = 0;
  virtual void end(std::size_t panel) = 0;

  /// Errors: whatever makes it useless to compute more panels.
  virtual void check() const {}
};

/// One device: panels come in the order of the result.
class OnlyOutput : public PanelOutput {
 public:
  /// Values: m = side of the blocks.
  OnlyOutput(Sink& sink, std::uint32_t m) : sink_(sink), record_bytes_(output_record_bytes(m)) {}

  void start(plan::Execution&, const plan::Statistics&) override {}
  void begin(std::size_t panel, std::uint64_t num_blocks) override;
  void append(std::size_t panel, std::span<const std::byte> records, Release release) override;
  void end(std::size_t) override {}

 private:
  Sink& sink_;
  std::uint64_t record_bytes_;
  std::uint64_t num_blocks_ = 0;  ///< of all panels so far
  std::uint64_t next_block_ = 0;  ///< of those with the sink
};

}  // namespace spmm::cuda
