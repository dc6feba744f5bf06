// Elements of records against a selection, and the largest of each row.
#include "base/records/selector.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/records/head.hpp"
#include "spmm/types.hpp"

namespace spmm {

RecordSelector::RecordSelector(const Selection& selection, std::uint32_t m)
    : selection_(selection),
      m_(m),
      record_bytes_(output_record_bytes(m)),
      best_(selection.keep == 0 ? 0 : m),
      least_(best_.size(), 0) {}

/// Leaves the largest `keep` of an element row.
void RecordSelector::prune(std::uint32_t row) {
  std::vector<std::uint64_t>& best = best_[row];
  if (best.size() <= selection_.keep) return;
  const auto last = best.begin() + (selection_.keep - 1);
  std::nth_element(best.begin(), last, best.end(), std::greater<>());
  least_[row] = *last;
  num_dropped_ += best.size() - selection_.keep;
  best.resize(selection_.keep);
}

void RecordSelector::offer(std::uint32_t row, std::uint64_t rank) {
  constexpr std::uint64_t kFew = 64;  // beyond which each prune looks at few elements for each that it drops
  if (rank < least_[row]) {
    ++num_dropped_;
    return;
  }
  best_[row].push_back(rank);
  if (best_[row].size() >= std::uint64_t{2} * selection_.keep + kFew) prune(row);
}

std::byte* RecordSelector::select(std::byte* begin, const std::byte* end) {
  std::byte* out = begin;
  for (const std::byte* record = begin; record != end; record += record_bytes_) {
    const BlockIndex at = read_index(record);
    if (selection_.upper_triangle && at.j < at.i) continue;
    block_row_ = at.i;
    std::memmove(out, record, record_bytes_);
    bool any = false;
    for (std::uint32_t r = 0; r < m_; ++r) {
      for (std::uint32_t c = 0; c < m_; ++c) {
        std::byte* const element = out + kIndexBytes + (std::size_t{r} * m_ + c) * sizeof(std::uint32_t);
        std::uint32_t value = 0;
        std::memcpy(&value, element, sizeof value);
        if (value == 0) continue;
        const bool is_below = selection_.upper_triangle && at.i == at.j && c < r;
        const bool is_dropped = value < selection_.at_least || (selection_.no_diagonal && at.i == at.j && c == r);
        if (is_below || is_dropped) {
          num_dropped_ += is_below ? 0 : 1;
          std::memset(element, 0, sizeof value);
        } else if (selection_.keep != 0) {
          offer(r, selection_rank(value, at.j * m_ + c));
        } else {
          any = true;
        }
      }
    }
    if (any) out += record_bytes_;
  }
  return out;
}

std::span<const std::byte> RecordSelector::end_row() {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> elements;  // place in the block row, value
  for (std::uint32_t r = 0; r < best_.size(); ++r) {
    prune(r);
    for (const std::uint64_t rank : std::exchange(best_[r], {})) {
      const std::uint32_t column = ~static_cast<std::uint32_t>(rank);
      elements.emplace_back((std::uint64_t{column / m_} << 32) + r * m_ + column % m_,
                            static_cast<std::uint32_t>(rank >> 32));
    }
    least_[r] = 0;
  }
  std::sort(elements.begin(), elements.end());
  kept_.clear();
  for (std::uint64_t before = ~std::uint64_t{0}; const auto& [place, value] : elements) {
    if (place >> 32 != before) {
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
