// Records of C, as they go by.
#include <algorithm>
#include <cstring>

#include "base/records/head.hpp"
#include "spmm/error.hpp"
#include "spmm/saturate.hpp"
#include "verify/proof.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kMaxStrayRows = 1000;
constexpr std::uint64_t kCopiedBytes = 64u << 10;  // of blocks with saturated elements, at a time

bool is_zero(const std::byte* values, std::uint64_t bytes) {
  std::uint64_t any = 0;
  for (std::uint64_t at = 0; at < bytes; at += sizeof(std::uint32_t)) {
    std::uint32_t value = 0;
    std::memcpy(&value, values + at, sizeof value);
    any |= value;
    if (any != 0) return false;  // mostly the first one
  }
  return true;
}

/// Shapes: values [bytes], of whole elements.
bool is_saturated_everywhere(const std::byte* values, std::uint64_t bytes) {
  std::uint32_t all = kMaxVal;
  for (std::uint64_t at = 0; at < bytes; at += sizeof(std::uint32_t)) {
    std::uint32_t value = 0;
    std::memcpy(&value, values + at, sizeof value);
    all &= value;
  }
  return all == kMaxVal;
}

/// One call of look(), on one thread.
class Look {
 public:
  explicit Look(ProofState& state)
      : s_(state), record_(output_record_bytes(state.m)), runs_(state.kernels.u32, state.m) {}

  std::optional<ProofFlaw> run(std::span<const std::byte> records) {
    const std::uint64_t count = records.size() / record_;
    std::optional<ProofFlaw> flaw;
    for (std::uint64_t x = 0, end = 0; x < count && !flaw; x = end) {
      end = end_of_run(records.data(), x, count, flaw);
      if (end > x) take_run(records.data() + x * record_, end - x);
    }
    hand_over();
    return flaw;
  }

 private:
  /// Records from x on that are of one block row and have no flaw.
  std::uint64_t end_of_run(const std::byte* records, std::uint64_t x, std::uint64_t count,
                           std::optional<ProofFlaw>& flaw) const {
    const std::uint32_t row = read_index(records + x * record_).i;
    for (; x < count; ++x) {
      const BlockIndex at = read_index(records + x * record_);
      if (at.i != row) return x;
      if (at.i >= s_.blocks_per_side || at.j >= s_.blocks_per_side) {
        flaw = {.kind = ProofFlaw::Kind::out_of_range, .record = x, .at = at};
        return x;
      }
      if (!s_.settings.allow_zero_blocks && is_zero(records + x * record_ + kIndexBytes, record_ - kIndexBytes)) {
        flaw = {.kind = ProofFlaw::Kind::zero_block, .record = x, .at = at};
        return x;
      }
    }
    return x;
  }

  void take_run(const std::byte* records, std::uint64_t count) {
    const std::uint32_t row = read_index(records).i;
    const std::uint32_t slot = s_.a_rows.slot(row);
    if (slot == RowSlots::kNone) return take_stray(row, records, count);
    if (s_.may_saturate[slot] == 0) return add(slot, 1, records, record_, count);
    for (std::uint64_t x = 0, begin = 0; x <= count; ++x) {
      const bool saturated = x < count && s_.kernels.is_saturated(records + x * record_ + kIndexBytes, s_.elements());
      if (x < count && !saturated) continue;
      if (x > begin) add(slot, s_.num_columns, records + begin * record_, record_, x - begin);
      if (saturated) keep(slot, records + x * record_);
      begin = x + 1;
    }
    flush(slot);
  }

  void add(std::uint32_t slot, std::uint32_t num_columns, const std::byte* records, std::uint64_t stride,
           std::uint64_t count) {
    for (std::uint32_t q = 0; q < num_columns; ++q) {
      const RandomVectors& x = *s_.vectors[q];
      runs_.sum(
          count, [&](std::uint64_t y) { return records + y * stride + kIndexBytes; },
          [&](std::uint64_t y, std::uint64_t* place) { return x.at(read_index(records + y * stride).j, place); },
          [&](const std::uint64_t* sums) {
            const auto guard = s_.locks.lock(slot);
            s_.residual[q].subtract(slot, sums);
          });
    }
  }

  /// Notes where a block is saturated, and keeps the rest of it for the sums.
  void keep(std::uint32_t slot, const std::byte* record) {
    if (is_saturated_everywhere(record + kIndexBytes, record_ - kIndexBytes)) {
      found_.blocks.push_back({.at = read_index(record)});
      return;
    }
    if (!copied_.empty() && copied_.size() + record_ > kCopiedBytes) flush(slot);
    const std::size_t at = copied_.size();
    copied_.insert(copied_.end(), record, record + record_);
    std::byte* const values = copied_.data() + at + kIndexBytes;
    const std::uint64_t elements = s_.elements();
    const std::uint64_t first_word = found_.masks.size();
    found_.masks.resize(first_word + (elements + 63) / 64, 0);
    for (std::uint64_t e = 0; e < elements; ++e) {
      std::uint32_t value = 0;
      std::memcpy(&value, values + e * sizeof value, sizeof value);
      if (value != kMaxVal) continue;
      found_.masks[first_word + e / 64] |= std::uint64_t{1} << e % 64;
      value = 0;
      std::memcpy(values + e * sizeof value, &value, sizeof value);
    }
    found_.blocks.push_back({.at = read_index(record), .mask = first_word});
  }

  void flush(std::uint32_t slot) {
    if (!copied_.empty()) add(slot, s_.num_columns, copied_.data(), record_, copied_.size() / record_);
    copied_.clear();
  }

  /// A stores no block in this row: the row of C is 0.
  void take_stray(std::uint32_t row, const std::byte* records, std::uint64_t count) {
    for (std::uint64_t x = 0; x < count; ++x) {
      if (is_zero(records + x * record_ + kIndexBytes, record_ - kIndexBytes)) continue;
      const std::lock_guard lock(s_.mutex);
      if (s_.stray_rows.size() < kMaxStrayRows) s_.stray_rows.push_back(row);
      return;
    }
  }

  void hand_over() {
    if (found_.blocks.empty()) return;
    found_.blocks.shrink_to_fit();
    found_.masks.shrink_to_fit();
    const std::lock_guard lock(s_.mutex);
    s_.saturated_bytes += found_.bytes();
    if (s_.settings.memory_bytes != 0 && s_.saturated_bytes > s_.settings.memory_bytes) {
      throw OutOfMemory("ProductOptions::verify_full",
                        "the places of saturated elements of the result do not fit beside the product",
                        "raise EngineOptions::memory_limit_bytes, or multiply without ProductOptions::verify_full and "
                        "use spmm-verify on the result");
    }
    s_.saturated.push_back(std::move(found_));
  }

  ProofState& s_;
  std::uint64_t record_;
  RecordRuns runs_;
  SaturatedBlocks found_{};
  std::vector<std::byte> copied_{};  // records without their saturated elements
};

}  // namespace

std::optional<ProofFlaw> Proof::look(std::span<const std::byte> records) {
  return Look(state_).run(records);
}

}  // namespace spmm
