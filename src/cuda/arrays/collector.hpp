// The arrays of a result in device memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "cuda/arrays/arrays.hpp"
#include "cuda/output/panels.hpp"
#include "kernels/blocks/arrays.hpp"
#include "kernels/blocks/launch.hpp"

namespace spmm::cuda {

/// The arrays of the result: multipliers write them, or packed panels are taken apart into them. They have room for
/// more blocks; if more than a quarter of it is empty in the end, what is used is copied. Work is done in the order of
/// the stream that packs.
class ArrayCollector : public PanelTaker {
 public:
  ArrayCollector(const DeviceArrays& arrays, DeviceMemory& memory, StageEvents& events)
      : arrays_(arrays), memory_(memory), stream_(memory.stream()), events_(events) {}

  void start(plan::Choice&, unsigned long long* num_saturated) override { num_saturated_ = num_saturated; }

  /// If the arrays would not have much more room than C blocks are expected. Errors: OutOfMemory, if it is a pattern,
  /// which is found in no other way.
  bool takes_directly(const plan::Choice& execution, const plan::Counts& counted) override {
    constexpr std::uint64_t kLittleBytes = 64u << 20;
    constexpr double kRoom = 2;  // copying what is used takes a third of what taking records apart does
    std::uint64_t most = 0;
    for (const plan::Panel& panel : execution.panels) most += panel.max_c_blocks();
    most = std::min(most, static_cast<std::uint64_t>(counted.num_pairs));
    const bool is_full = arrays_.is_pattern || most * output_record_bytes(counted.m()) <= kLittleBytes ||
                         static_cast<double>(most) <= kRoom * expected_c_blocks(counted);
    if (is_full && reserve(most, execution.panels.size())) return true;
    if (!arrays_.is_pattern) return false;
    throw OutOfMemory("device memory for a plan", "the result does not fit at once",
                      "raise EngineOptions::memory_limit_bytes, or free device memory");
  }

  void wait_until_free(PackedPanel& panel) override {
    if (num_so_far_.size() == 0) return;
    panel.target.out = {.to = kernels::records_in_arrays(heads_.data(), values_.get(), arrays_.a.m),
                        .num_before = num_so_far_.data() + num_panels_,
                        .num_blocks = num_so_far_.data() + num_panels_ + 1};
  }

  void push(PackedPanel& panel) override {
    is_counted_ = panel.target.is_counted;
    if (num_so_far_.size() != 0) {
      ++num_panels_;
      return;
    }
    stream_.synchronize();
    const std::uint64_t num_blocks = panel.num_blocks.value();
    if (num_blocks == 0) return;
    check_num_output_blocks(num_blocks_ + num_blocks);
    make_room_for(num_blocks_ + num_blocks);
    events_.timed(Stage::compact, stream_, [&] {
      kernels::launch_unpack_records(reinterpret_cast<const std::uint32_t*>(panel.records.data()), num_blocks,
                                     arrays_.a.m, heads_.data() + 2 * num_blocks_,
                                     values_.get() + num_blocks_ * block_elements(), stream_.get());
    });
    num_blocks_ += num_blocks;
  }

  /// The result's arrays are complete, and the caller's stream waits for them.
  std::uint64_t finish() override {
    DeviceBsrMatrix& out = *arrays_.out;
    const std::uint32_t index_bytes = arrays_.a.index_bytes;
    const std::uint64_t num_rows = arrays_.a.rows / arrays_.a.m;
    if (num_so_far_.size() != 0) num_blocks_ = fetch(num_so_far_.data() + num_panels_, stream_);
    if (index_bytes == 4 && num_blocks_ > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
      throw OutOfMemory("result", text(num_blocks_, " blocks are more than indices of 32 bits can number"),
                        "pass operands with indices of 64 bits");
    }
    if (room_ - num_blocks_ > room_ / 4) set_room_for_elements(num_blocks_);
    const auto indptr = allocate<std::byte>((num_rows + 1) * index_bytes, "indptr");
    const auto indices = allocate<std::byte>(num_blocks_ * index_bytes, "block columns");
    events_.timed(Stage::compact, stream_, [&] {
      kernels::launch_make_indices(
          heads_.data(), num_blocks_,
          {.indptr = indptr.get(), .indices = indices.get(), .index_bytes = index_bytes, .num_rows = num_rows},
          stream_.get());
      if (is_counted_ || num_saturated_ == nullptr) return;
      kernels::launch_count_saturated(values_.get(), num_blocks_ * block_elements(), num_saturated_, stream_.get());
    });
    stream_.hold(arrays_.call.stream);
    out.num_blocks = num_blocks_;
    out.device = memory_.context().device();
    out.indptr = indptr;
    out.indices = indices;
    out.values = values_;
    return num_blocks_;
  }

  /// What stays of a result that was reserved: heads [blocks, 2] of its blocks, and blocks before each panel and at the
  /// end [panels + 1]. After finish().
  struct Pattern {
    DeviceBuffer<std::uint32_t> heads;
    DeviceBuffer<std::uint32_t> num_so_far;
  };
  [[nodiscard]] Pattern take_pattern() { return {std::move(heads_), std::move(num_so_far_)}; }

 private:
  [[nodiscard]] std::uint64_t block_elements() const { return std::uint64_t{arrays_.a.m} * arrays_.a.m; }

  /// C blocks, about, if those of a row lie anywhere in its columns and rows have as many pairs as their mean.
  static double expected_c_blocks(const plan::Counts& counted) {
    const double columns = counted.c_columns();
    const double rows = std::max(1.0, static_cast<double>(counted.row_pairs.num_rows));
    return rows * columns * -std::expm1(-counted.num_pairs / rows / columns);
  }

  /// Arrays that come from the caller or from the pool of the device.
  template <class T>
  std::shared_ptr<T> allocate(std::uint64_t count, const char* what) const {
    return std::reinterpret_pointer_cast<T>(allocate_result(arrays_.call, memory_, count * sizeof(T), what));
  }

  /// From now on panels are written to the arrays. Returns false, and changes nothing, if there is no memory for them.
  bool reserve(std::uint64_t max_c_blocks, std::size_t num_panels) {
    if (max_c_blocks * output_record_bytes(arrays_.a.m) > memory_.free_bytes()) return false;
    try {
      DeviceBuffer<std::uint32_t> num_so_far(memory_, num_panels + 1, "counts");
      check(cudaMemsetAsync(num_so_far.data(), 0, sizeof(std::uint32_t), stream_.get()), "clear count");
      set_room(max_c_blocks);
      num_so_far_ = std::move(num_so_far);
    } catch (const OutOfMemory&) {  // nothing of that size in one piece, or the caller's allocator has none
      return false;
    }
    return true;
  }

  /// For packed panels: twice as much as is needed if there was too little, so that few blocks are copied again.
  void make_room_for(std::uint64_t num_blocks) {
    if (num_blocks <= room_) return;
    const std::uint64_t twice = num_blocks_ == 0 ? num_blocks : 2 * num_blocks;
    set_room(twice * output_record_bytes(arrays_.a.m) <= memory_.free_bytes() ? twice : num_blocks);
  }

  /// Arrays for so many blocks, with those that there are. Errors: OutOfMemory.
  void set_room(std::uint64_t num_blocks) {
    DeviceBuffer<std::uint32_t> heads(memory_, 2 * num_blocks, "block rows and columns");
    copy_async(heads.data(), heads_.data(), 2 * num_blocks_, stream_);
    set_room_for_elements(num_blocks);
    heads_ = std::move(heads);
    room_ = num_blocks;
  }

  /// As set_room(), of the elements alone: heads do not leave the library.
  void set_room_for_elements(std::uint64_t num_blocks) {
    auto values = allocate<std::uint32_t>(num_blocks * block_elements(), "result elements");
    if (num_blocks_ != 0) {
      events_.timed(Stage::compact, stream_,
                    [&] { copy_async(values.get(), values_.get(), num_blocks_ * block_elements(), stream_); });
      stream_.hold(arrays_.call.stream);  // in whose order the old elements go
    }
    values_ = std::move(values);
  }

  const DeviceArrays& arrays_;
  DeviceMemory& memory_;
  const Stream& stream_;
  StageEvents& events_;
  unsigned long long* num_saturated_ = nullptr;
  bool is_counted_ = false;            // all panels have been counted when they were packed
  std::uint64_t num_blocks_ = 0;       // in the arrays; of those that multipliers write, once they have ended
  std::uint64_t room_ = 0;             // of the arrays, in blocks
  DeviceBuffer<std::uint32_t> heads_;  // [room, 2]: block row and column
  std::shared_ptr<std::uint32_t> values_;
  DeviceBuffer<std::uint32_t> num_so_far_;  // [panels + 1], if multipliers write the arrays: blocks before each panel
  std::size_t num_panels_ = 0;              // so far
};

}  // namespace spmm::cuda
