#include "plan/panels/output_places.hpp"

namespace spmm::plan {

OutputPlaces::OutputPlaces(std::size_t num_pieces) : entries_(num_pieces) {
  if (entries_.empty()) return;
  entries_.front().place = 0;
  entries_.front().all_before_ended = true;
}

void OutputPlaces::set_count(std::size_t piece, std::uint64_t num_blocks) {
  entries_.at(piece).count = num_blocks;
  for (std::size_t x = piece; x + 1 < entries_.size() && entries_[x].place && entries_[x].count; ++x) {
    entries_[x + 1].place = *entries_[x].place + *entries_[x].count;
  }
}

void OutputPlaces::set_end(std::size_t piece) {
  entries_.at(piece).has_ended = true;
  for (std::size_t x = piece; x + 1 < entries_.size() && entries_[x].all_before_ended && entries_[x].has_ended; ++x) {
    entries_[x + 1].all_before_ended = true;
  }
}

std::optional<std::uint64_t> OutputPlaces::place(std::size_t piece) const {
  return entries_.at(piece).place;
}

bool OutputPlaces::is_next(std::size_t piece) const {
  return entries_.at(piece).all_before_ended;
}

}  // namespace spmm::plan
