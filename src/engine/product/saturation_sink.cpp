#include "engine/product/saturation_sink.hpp"

#include <utility>

#include "base/records/release_once.hpp"
#include "base/records/saturated_count.hpp"

namespace spmm {

SaturationSink::SaturationSink(Sink& next, const Run& run)
    : next_(next),
      run_(run),
      state_(std::make_shared<State>()),
      is_watched_(next.watch([state = state_](std::uint32_t, std::uint64_t, std::span<const std::byte> records) {
        state->add(records);
      })) {}

void SaturationSink::State::add(std::span<const std::byte> records) {
  if (may_saturate) num_saturated += count_saturated(records);
}

void SaturationSink::append(std::span<const std::byte> records, std::function<void()> release) {
  ReleaseOnce releaser(std::move(release));
  count(records);
  next_.append(records, releaser.hand_on());
}

void SaturationSink::append_to(std::uint32_t range, std::span<const std::byte> records, std::function<void()> release) {
  ReleaseOnce releaser(std::move(release));
  count(records);
  next_.append_to(range, records, releaser.hand_on());
}

void SaturationSink::append_at(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records,
                               std::function<void()> release) {
  ReleaseOnce releaser(std::move(release));
  count(records);
  next_.append_at(range, first_block, records, releaser.hand_on());
}

void SaturationSink::count(std::span<const std::byte> records) {
  if (is_watched_ || !state_->may_saturate) return;
  constexpr std::uint64_t kWordBytes = sizeof(std::uint32_t);
  constexpr std::uint64_t kPieceWords = 64u << 10;
  run_.parallel_for(records.size() / kWordBytes, kPieceWords, [&](std::uint64_t begin, std::uint64_t end) {
    state_->add(records.subspan(begin * kWordBytes, (end - begin) * kWordBytes));
  });
}

}  // namespace spmm
