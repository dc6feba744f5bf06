// The arrays of a result in device memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "cuda/arrays/arrays.hpp"
#include "cuda/output/panels.hpp"
#include "kernels/blocks/arrays.hpp"
#include "kernels/blocks/launch.hpp"

namespace spmm::cuda {

/// The arrays of the result: multipliers write them, or packed panels are taken apart into them. Work is done in the
/// order of the stream that packs.
class ArrayCollector : public PanelTaker {
 public:
  ArrayCollector(const DeviceArrays& arrays, DeviceMemory& memory, StageEvents& events)
      : arrays_(arrays), memory_(memory), stream_(memory.stream()), events_(events) {}

  void start(plan::Choice&, unsigned long long* num_saturated) override { num_saturated_ = num_saturated; }

  /// If the arrays would not have much more room than C blocks are expected.
  bool takes_directly(const plan::Choice& execution, const plan::Counts& counted) override {
    constexpr std::uint64_t kLittleBytes = 64u << 20;
    constexpr double kRoom = 2;  // copying what is used takes a third of what taking records apart does
    sure_blocks_ = sure_terms(counted.max_element, counted.max_element) / counted.m();
    std::uint64_t most = 0;
    for (const plan::Panel& panel : execution.panels) most += panel.max_c_blocks();
    most = std::min(most, static_cast<std::uint64_t>(counted.num_pairs));
    const bool is_full = most * output_record_bytes(counted.m()) <= kLittleBytes ||
                         static_cast<double>(most) <= kRoom * expected_c_blocks(counted);
    return is_full && reserve(most, execution.panels.size());
  }

  /// From now on panels are written to arrays that have room for max_c_blocks. Returns false, and changes nothing, if
  /// there is no memory for them. Arrays whose last quarter is empty in the end are copied to smaller ones.
  bool reserve(std::uint64_t max_c_blocks, std::size_t num_panels) {
    if (max_c_blocks * output_record_bytes(arrays_.a.m) > memory_.free_bytes()) return false;
    try {
      Piece all = make_piece(max_c_blocks);
      num_so_far_ = {memory_, num_panels + 1, "counts"};
      check(cudaMemsetAsync(num_so_far_.data(), 0, sizeof(std::uint32_t), stream_.get()), "clear count");
      pieces_.push_back(std::move(all));
    } catch (const OutOfMemory&) {  // no piece of that size, or the caller's allocator has none
      return false;
    }
    return true;
  }

  void wait_until_free(PackedPanel& panel) override {
    if (num_so_far_.size() == 0) return;
    panel.target.out = {
        .to = kernels::records_in_arrays(pieces_.front().heads.data(), pieces_.front().values.get(), arrays_.a.m),
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
    Piece piece = make_piece(num_blocks);
    events_.timed(Stage::compact, stream_, [&] {
      kernels::launch_unpack_records(reinterpret_cast<const std::uint32_t*>(panel.records.data()), num_blocks,
                                     arrays_.a.m, piece.heads.data(), piece.values.get(), stream_.get());
    });
    num_blocks_ += num_blocks;
    pieces_.push_back(std::move(piece));
  }

  /// The result's arrays are complete, and the caller's stream waits for them.
  std::uint64_t finish() override {
    DeviceBsrMatrix& out = *arrays_.out;
    const std::uint32_t index_bytes = arrays_.a.index_bytes;
    const std::uint64_t num_rows = arrays_.a.rows / arrays_.a.m;
    if (num_so_far_.size() != 0) take_reserved();
    if (index_bytes == 4 && num_blocks_ > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
      throw OutOfMemory("result", text(num_blocks_, " blocks are more than indices of 32 bits can number"),
                        "pass operands with indices of 64 bits");
    }
    Piece all = joined();
    const auto indptr = allocate<std::byte>((num_rows + 1) * index_bytes, "indptr");
    const auto indices = allocate<std::byte>(num_blocks_ * index_bytes, "block columns");
    events_.timed(Stage::compact, stream_, [&] {
      kernels::launch_make_indices(
          all.heads.data(), num_blocks_,
          {.indptr = indptr.get(), .indices = indices.get(), .index_bytes = index_bytes, .num_rows = num_rows},
          stream_.get());
      if (is_counted_ || num_saturated_ == nullptr) return;
      const std::uint32_t m = arrays_.a.m;
      if (arrays_.a.indptr == nullptr) {  // many products have none as a whole
        kernels::launch_count_saturated(all.values.get(), num_blocks_ * m * m, num_saturated_, stream_.get());
      } else {
        kernels::launch_count_saturated_rows(all.heads.data(), all.values.get(), num_blocks_,
                                             {.indptr = arrays_.a.indptr, .index_bytes = index_bytes}, m, sure_blocks_,
                                             num_saturated_, stream_.get());
      }
    });
    stream_.hold(arrays_.call.stream);
    pieces_.clear();
    out.num_blocks = num_blocks_;
    out.device = memory_.context().device();
    out.indptr = indptr;
    out.indices = indices;
    out.values = all.values;
    heads_ = std::move(all.heads);
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
  /// The blocks of some panels.
  struct Piece {
    std::uint64_t num_blocks = 0;       // as far as there is room
    DeviceBuffer<std::uint32_t> heads;  // [num_blocks, 2]: block row and column
    std::shared_ptr<std::uint32_t> values;
  };

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

  Piece make_piece(std::uint64_t num_blocks) const {
    const std::uint64_t elements = std::uint64_t{arrays_.a.m} * arrays_.a.m;
    return {.num_blocks = num_blocks,
            .heads = {memory_, 2 * num_blocks, "block rows and columns"},
            .values = allocate<std::uint32_t>(num_blocks * elements, "result elements")};
  }

  /// Learns how much of the reserved arrays is in use; drops them if that is little.
  void take_reserved() {
    num_blocks_ = fetch(num_so_far_.data() + num_panels_, stream_);
    const std::uint64_t elements = std::uint64_t{arrays_.a.m} * arrays_.a.m;
    Piece& all = pieces_.front();
    const std::uint64_t room = std::exchange(all.num_blocks, num_blocks_);
    if (num_blocks_ == 0) return pieces_.clear();
    if (room - num_blocks_ <= room / 4) return;
    const auto values = allocate<std::uint32_t>(num_blocks_ * elements, "result elements");
    events_.timed(Stage::compact, stream_,
                  [&] { copy_async(values.get(), all.values.get(), num_blocks_ * elements, stream_); });
    all.values = values;
  }

  /// The pieces in arrays of their own, one behind the other.
  Piece joined() {
    if (pieces_.empty()) return {};
    if (pieces_.size() == 1) return std::move(pieces_.front());
    const std::uint64_t elements = std::uint64_t{arrays_.a.m} * arrays_.a.m;
    Piece all = make_piece(num_blocks_);
    std::uint64_t at = 0;
    events_.timed(Stage::compact, stream_, [&] {
      for (const Piece& piece : pieces_) {
        copy_async(all.heads.data() + 2 * at, piece.heads.data(), 2 * piece.num_blocks, stream_);
        copy_async(all.values.get() + at * elements, piece.values.get(), piece.num_blocks * elements, stream_);
        at += piece.num_blocks;
      }
    });
    return all;
  }

  const DeviceArrays& arrays_;
  DeviceMemory& memory_;
  const Stream& stream_;
  StageEvents& events_;
  unsigned long long* num_saturated_ = nullptr;
  std::uint64_t sure_blocks_ = 0;           // rows of A with no more bring no element to the limit
  std::vector<Piece> pieces_;               // a single one if it has been reserved
  DeviceBuffer<std::uint32_t> num_so_far_;  // [panels + 1], if pieces are reserved: blocks of all panels before
  std::size_t num_panels_ = 0;              // that have been written to what is reserved
  bool is_counted_ = false;                 // those have counted the elements at the limit
  std::uint64_t num_blocks_ = 0;
  DeviceBuffer<std::uint32_t> heads_;  // of the finished result
};

}  // namespace spmm::cuda
