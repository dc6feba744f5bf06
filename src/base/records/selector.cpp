// Elements of records against a selection, and the largest of each row.
#include "base/records/selector.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/records/head.hpp"
#include "spmm/types.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kFew = 64;                // so that a prune drops many of the elements that it looks at
constexpr std::uint64_t kKeptBytes = 256u << 10;  // of records that are taken at once, or one record

}  // namespace

std::uint64_t RecordSelector::memory_bytes(const Selection& selection, std::uint32_t m, std::uint32_t num_columns) {
  if (selection.keep == 0) return 0;
  const std::uint64_t of_row = std::min<std::uint64_t>(selection.keep, std::uint64_t{num_columns} * m);
  const std::uint64_t ranks = 2 * of_row + kFew;
  constexpr std::uint64_t kGrown = 2;  // an array that grows is copied to one of twice the size
  return (m + 1) * ranks * sizeof(std::uint64_t) +
         kGrown * m * of_row * sizeof(std::pair<std::uint64_t, std::uint32_t>) +
         std::max(kKeptBytes, output_record_bytes(m));
}

RecordSelector::RecordSelector(const Selection& selection, std::uint32_t m)
    : selection_(selection),
      m_(m),
      record_bytes_(output_record_bytes(m)),
      best_(selection.keep == 0 ? 0 : m),
      least_(best_.size(), 0) {}

/// Leaves the largest `keep` of an element row, in their order.
void RecordSelector::prune(std::uint32_t row) {
  std::vector<std::uint64_t>& best = best_[row];
  if (best.size() <= selection_.keep) return;
  ranks_ = best;
  const auto last = ranks_.begin() + (selection_.keep - 1);
  std::nth_element(ranks_.begin(), last, ranks_.end(), std::greater<>());
  least_[row] = *last;
  num_dropped_ += std::erase_if(best, [least = *last](std::uint64_t rank) { return rank < least; });
}

void RecordSelector::offer(std::uint32_t row, std::uint64_t rank) {
  if (rank < least_[row]) {
    ++num_dropped_;
    return;
  }
  best_[row].push_back(rank);
  if (best_[row].size() >= std::uint64_t{2} * selection_.keep + kFew) prune(row);
}

/// select() of side 1: each record is an element, which is not zero.
std::byte* RecordSelector::select_elements(std::byte* begin, const std::byte* end) {
  constexpr std::size_t kBytes = output_record_bytes(1);
  const Selection selection = selection_;  // a copy: it cannot change while records are written
  const std::uint32_t row = block_row_;
  std::byte* record = begin;
  while (selection.upper_triangle && record != end && read_index(record).j < row) record += kBytes;
  std::byte* out = begin;
  std::uint64_t num_dropped = 0;
  std::uint32_t least = selection.at_least;
  for (; record != end; record += kBytes) {
    const BlockIndex at = read_index(record);
    std::uint32_t value = 0;
    std::memcpy(&value, record + kIndexBytes, sizeof value);
    const std::uint32_t num_stay = (value >= least ? 1 : 0) & (selection.no_diagonal && at.j == row ? 0 : 1);
    num_dropped += 1 - num_stay;
    if (selection.keep == 0) {  // without a branch that nobody could predict
      write_index(out, at);
      std::memcpy(out + kIndexBytes, &value, sizeof value);
      out += num_stay * kBytes;
    } else if (num_stay != 0) {
      offer(0, selection_rank(value, at.j));
      least = std::max(least, static_cast<std::uint32_t>(least_[0] >> 32));
    }
  }
  num_dropped_ += num_dropped;
  return out;
}

std::byte* RecordSelector::select(std::byte* begin, const std::byte* end) {
  if (begin == end) return begin;
  block_row_ = read_index(begin).i;
  if (m_ == 1) return select_elements(begin, end);
  std::byte* out = begin;
  for (std::byte* record = begin; record != end; record += record_bytes_) {
    const BlockIndex at = read_index(record);
    if (selection_.upper_triangle && at.j < at.i) continue;
    const bool is_diagonal = at.i == at.j;
    bool any = false;
    std::byte* element = record + kIndexBytes;
    for (std::uint32_t r = 0; r < m_; ++r) {
      for (std::uint32_t c = 0; c < m_; ++c, element += sizeof(std::uint32_t)) {
        std::uint32_t value = 0;
        std::memcpy(&value, element, sizeof value);
        if (value == 0) continue;
        const bool is_below = is_diagonal && selection_.upper_triangle && c < r;
        if (is_below || value < selection_.at_least || (is_diagonal && selection_.no_diagonal && c == r)) {
          num_dropped_ += is_below ? 0 : 1;
          std::memset(element, 0, sizeof value);
        } else if (selection_.keep != 0) {
          offer(r, selection_rank(value, at.j * m_ + c));
        } else {
          any = true;
        }
      }
    }
    if (!any) continue;
    std::memmove(out, record, record_bytes_);
    out += record_bytes_;
  }
  return out;
}

void RecordSelector::end_row() {
  elements_.clear();
  num_taken_ = 0;
  for (std::uint32_t r = 0; r < best_.size(); ++r) {
    prune(r);
    for (const std::uint64_t rank : best_[r]) {
      const std::uint32_t column = ~static_cast<std::uint32_t>(rank);
      elements_.emplace_back((std::uint64_t{column / m_} << 32) + r * m_ + column % m_,
                             static_cast<std::uint32_t>(rank >> 32));
    }
    best_[r].clear();
    least_[r] = 0;
  }
  if (m_ != 1) std::sort(elements_.begin(), elements_.end());
}

std::span<const std::byte> RecordSelector::take_kept() {
  kept_.clear();
  for (std::uint64_t before = ~std::uint64_t{0}; num_taken_ < elements_.size(); ++num_taken_) {
    const auto& [place, value] = elements_[num_taken_];
    if (place >> 32 != before) {
      if (!kept_.empty() && kept_.size() + record_bytes_ > kKeptBytes) break;
      before = place >> 32;
      kept_.resize(kept_.size() + record_bytes_);  // zeros
      write_index(kept_.data() + kept_.size() - record_bytes_,
                  {.i = block_row_, .j = static_cast<std::uint32_t>(before)});
    }
    std::byte* const values = kept_.data() + kept_.size() - record_bytes_ + kIndexBytes;
    std::memcpy(values + static_cast<std::uint32_t>(place) * sizeof value, &value, sizeof value);
  }
  return kept_;
}

}  // namespace spmm
