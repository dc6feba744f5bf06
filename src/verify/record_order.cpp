// Pieces joined with their neighbours as they come.
#include "verify/record_order.hpp"

#include <iterator>

#include "base/records/head.hpp"

namespace spmm {

std::optional<OrderFlaw> RecordOrder::add(std::uint64_t first, std::span<const std::byte> records) {
  const std::uint64_t count = records.size() / record_bytes_;
  if (count == 0) return std::nullopt;
  BlockIndex before = read_index(records.data());
  for (std::uint64_t x = 1; x < count; ++x) {
    const BlockIndex at = read_index(records.data() + x * record_bytes_);
    if (!(before < at)) return OrderFlaw{.record = first + x, .before = before, .at = at};
    before = at;
  }
  return join(first, {.end = first + count, .first = read_index(records.data()), .last = before});
}

std::optional<OrderFlaw> RecordOrder::join(std::uint64_t first, SeenRecords piece) {
  const std::lock_guard lock(mutex_);
  count_ += piece.end - first;
  auto next = pieces_.lower_bound(first);
  if (next != pieces_.begin()) {
    const auto previous = std::prev(next);
    if (previous->second.end == first) {
      if (!(previous->second.last < piece.first)) {
        return OrderFlaw{.record = first, .before = previous->second.last, .at = piece.first};
      }
      first = previous->first;
      piece.first = previous->second.first;
      pieces_.erase(previous);
    }
  }
  if (next != pieces_.end() && next->first == piece.end) {
    if (!(piece.last < next->second.first)) {
      return OrderFlaw{.record = piece.end, .before = piece.last, .at = next->second.first};
    }
    piece.end = next->second.end;
    piece.last = next->second.last;
    pieces_.erase(next);
  }
  pieces_[first] = piece;
  return std::nullopt;
}

bool RecordOrder::is_whole(std::uint64_t count) const {
  const std::lock_guard lock(mutex_);
  if (count_ != count) return false;
  if (count == 0) return pieces_.empty();
  return pieces_.size() == 1 && pieces_.begin()->first == 0 && pieces_.begin()->second.end == count;
}

std::uint64_t RecordOrder::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace spmm
