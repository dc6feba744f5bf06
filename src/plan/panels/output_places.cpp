#include "plan/panels/output_places.hpp"

#include <algorithm>

namespace spmm::plan {

OutputPlaces::OutputPlaces(const std::vector<std::uint32_t>& ranges) : entries_(ranges.size()) {
  const std::uint32_t num_ranges = ranges.empty() ? 0 : *std::max_element(ranges.begin(), ranges.end()) + 1;
  std::vector<std::size_t> last(num_ranges, kNone);
  for (std::size_t x = 0; x < ranges.size(); ++x) {
    const std::size_t before = last[ranges[x]];
    if (before == kNone) {
      entries_[x].place = 0;
      entries_[x].all_before_ended = true;
    } else {
      entries_[before].behind = x;
    }
    last[ranges[x]] = x;
  }
}

void OutputPlaces::set_count(std::size_t piece, std::uint64_t num_blocks) {
  entries_.at(piece).count = num_blocks;
  for (std::size_t x = piece; entries_[x].place && entries_[x].count; x = entries_[x].behind) {
    const std::size_t behind = entries_[x].behind;
    if (behind == kNone) return;
    entries_[behind].place = *entries_[x].place + *entries_[x].count;
  }
}

void OutputPlaces::set_end(std::size_t piece) {
  entries_.at(piece).has_ended = true;
  for (std::size_t x = piece; entries_[x].all_before_ended && entries_[x].has_ended; x = entries_[x].behind) {
    const std::size_t behind = entries_[x].behind;
    if (behind == kNone) return;
    entries_[behind].all_before_ended = true;
  }
}

std::optional<std::uint64_t> OutputPlaces::place(std::size_t piece) const {
  return entries_.at(piece).place;
}

bool OutputPlaces::is_next(std::size_t piece) const {
  return entries_.at(piece).all_before_ended;
}

}  // namespace spmm::plan
