// Records cut where a range ends.
#include "base/records/splitting_sink.hpp"

#include <memory>
#include <utility>

#include "base/records/head.hpp"
#include "base/records/release_once.hpp"

namespace spmm {

SplittingSink::SplittingSink(Sink& inner, std::vector<BlockRows> ranges, std::uint32_t m)
    : inner_(inner), ranges_(std::move(ranges)), record_bytes_(output_record_bytes(m)) {
  inner_.set_ranges(ranges_);
}

void SplittingSink::append(std::span<const std::byte> records, std::function<void()> release) {
  ReleaseOnce last(std::move(release));  // the pieces share it: called when the last of them is through
  std::shared_ptr<ReleaseOnce> shared;
  while (!records.empty()) {
    while (range_ + 1 < ranges_.size() && read_index(records.data()).i >= ranges_[range_].end) ++range_;
    std::uint64_t low = 1;  // records that belong to the range, by bisection
    std::uint64_t high = records.size() / record_bytes_;
    while (low < high) {
      const std::uint64_t middle = (low + high + 1) / 2;
      if (read_index(records.data() + (middle - 1) * record_bytes_).i < ranges_[range_].end) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    const std::span<const std::byte> piece = records.first(low * record_bytes_);
    records = records.subspan(piece.size());
    if (records.empty() && !shared) return inner_.append_to(range_, piece, last.hand_on());
    if (!shared) shared = std::make_shared<ReleaseOnce>(std::move(last));
    inner_.append_to(range_, piece, [shared] {});
  }
}

}  // namespace spmm
