#include "cuda/output/common_output.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "base/records/errors.hpp"
#include "kernels/tuning.hpp"
#include "plan/registry.hpp"

namespace spmm::cuda {
namespace {

constexpr auto kCancelPeriod = std::chrono::milliseconds(50);

plan::ShareRules rules_of(const plan::Execution& execution, std::uint32_t num_devices, std::uint32_t m) {
  const bool is_dense = plan::row_of(execution.id).is_dense();
  return {.num_devices = num_devices,
          .by_rows = is_dense,
          .row_step = is_dense ? plan::dense_row_step(m) : 1,
          .divides = plan::row_of(execution.id).expansion != plan::Expansion::tiles,
          .min_c_blocks = kernels::kRingSlotBytes / output_record_bytes(m),
          .max_c_blocks = std::max<std::uint64_t>(1, execution.max_c_blocks)};
}

}  // namespace

std::vector<std::size_t> CommonOutput::start(std::uint32_t device, plan::Execution& execution,
                                             const plan::Statistics& statistics) {
  const std::lock_guard lock(mutex_);
  check_locked();
  if (!places_) {
    panels_ = execution.panels;
    const plan::ShareRules rules = rules_of(execution, num_devices_, statistics.m());
    pieces_ = plan::share_panels(panels_, statistics.row_pairs, rules);
    for (const plan::SharedPanel& piece : pieces_) num_rows_ += piece.panel.num_rows;
    places_.emplace(pieces_.size());
  } else if (execution.panels != panels_) {
    throw std::logic_error("devices that share a product decided differently");
  }
  std::vector<std::size_t> own;
  execution.panels.clear();
  for (std::size_t x = 0; x < pieces_.size(); ++x) {
    if (pieces_[x].device != device) continue;
    own.push_back(x);
    execution.panels.push_back(pieces_[x].panel);
  }
  return own;
}

std::uint64_t CommonOutput::begin(std::size_t piece, std::uint64_t num_blocks) {
  std::unique_lock lock(mutex_);
  num_blocks_ += num_blocks;
  try {
    check_num_output_blocks(num_blocks_);
  } catch (...) {  // no device's own failure
    if (!failure_) failure_ = std::current_exception();
  }
  places_->set_count(piece, num_blocks);
  changed_.notify_all();
  while (true) {
    check_locked();
    run_.check_cancelled();
    if (at_places_ ? places_->place(piece).has_value() : places_->is_next(piece)) break;
    changed_.wait_for(lock, kCancelPeriod);
  }
  return places_->place(piece).value_or(0);
}

template <class Body>
void CommonOutput::with_sink(const Body& body) {
  try {
    const std::lock_guard lock(sink_mutex_);
    body();
  } catch (...) {  // no device's own failure
    fail(std::current_exception());
    throw;
  }
}

void CommonOutput::append(std::uint64_t first_block, std::span<const std::byte> records, Release release) {
  with_sink([&] { sink_.write(first_block, records, std::move(release)); });
}

void CommonOutput::end(std::size_t piece) {
  const std::lock_guard lock(mutex_);
  places_->set_end(piece);
  changed_.notify_all();
  rows_done_ += pieces_[piece].panel.num_rows;
  if (run_.on_progress) run_.on_progress(Stage::multiply, rows_done_, num_rows_);
}

void CommonOutput::fail(std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  changed_.notify_all();
}

void CommonOutput::check_locked() const {
  if (failure_) throw DeviceStopped{};
}

void CommonOutput::check() const {
  const std::lock_guard lock(mutex_);
  check_locked();
}

void CommonOutput::rethrow_failure() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace spmm::cuda
