// Where the packed panels of a device go: to the sink, or to what several devices share of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/execution.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// Another device has failed; never leaves this folder.
struct DeviceStopped {};

/// Packed panels that a device holds at most where several ranges grow or several devices share a product; together
/// as much memory as two panels of the largest size.
inline constexpr std::uint64_t kMaxPanelBuffers = 16;

/// How the sink wants the block rows of the result cut.
struct ResultRanges {
  std::vector<std::uint32_t> rows{};    ///< [ranges + 1], the row of A that each range begins with, and their number
  std::vector<BlockRows> block_rows{};  ///< [ranges]
};

/// The output of one device. Threads: start() and check() from the thread that computes, before and at the same time as
/// the others, which come from one thread, panel after panel.
class PanelOutput {
 public:
  PanelOutput() = default;
  PanelOutput(const PanelOutput&) = delete;
  PanelOutput& operator=(const PanelOutput&) = delete;
  virtual ~PanelOutput() = default;

  /// Into how many ranges of block rows the result is to be cut.
  [[nodiscard]] virtual std::uint32_t num_ranges() const = 0;

  /// Before the first panel. Leaves those panels in the execution, as they are or in pieces, that this device computes.
  virtual void start(const ResultRanges& ranges, plan::Execution& execution, const plan::Statistics& statistics) = 0;

  /// How many packed panels are worth holding.
  [[nodiscard]] virtual std::uint64_t max_buffers() const { return 2; }

  /// How many panels may be on their way to the sink at the same time, slice by slice in turns.
  [[nodiscard]] virtual std::size_t max_sending() const { return 1; }

  /// Whether it says itself how many rows are done: panels come in another order than that of the rows.
  [[nodiscard]] virtual bool reports_progress() const { return false; }

  /// Panels are numbered from 0 as they stand in the execution; begin() may wait for those of other devices.
  /// Errors: OutOfMemory (too many blocks), Interrupted.
  virtual void begin(std::size_t panel, std::uint64_t num_blocks) = 0;
  /// Its records, in order; as Sink::append().
  virtual void append(std::size_t panel, std::span<const std::byte> records, std::function<void()> release) = 0;
  virtual void end(std::size_t panel) = 0;

  /// Errors: whatever makes it useless to compute more panels.
  virtual void check() const {}
};

/// One device and a sink of one range: panels come in the order of the result.
class OnlyOutput : public PanelOutput {
 public:
  explicit OnlyOutput(Sink& sink) : sink_(sink) {}

  [[nodiscard]] std::uint32_t num_ranges() const override { return 1; }
  void start(const ResultRanges&, plan::Execution&, const plan::Statistics&) override {}
  void begin(std::size_t panel, std::uint64_t num_blocks) override;
  void append(std::size_t panel, std::span<const std::byte> records, std::function<void()> release) override;
  void end(std::size_t) override {}

 private:
  Sink& sink_;
  std::uint64_t num_blocks_ = 0;
};

}  // namespace spmm::cuda
