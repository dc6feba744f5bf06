#include "dist/round_sink.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/record_errors.hpp"
#include "base/record_head.hpp"
#include "base/release_once.hpp"
#include "base/text.hpp"
#include "dist/page_split.hpp"
#include "spmm/error.hpp"

namespace spmm::dist {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFailed = std::numeric_limits<std::uint64_t>::max();  // instead of a length
constexpr std::uint64_t kFirstBytes = 1u << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool has_failure(std::span<const std::uint64_t> sizes) {
  return std::find(sizes.begin(), sizes.end(), kFailed) != sizes.end();
}

/// Records of `records` whose row is below `row`, in bytes.
std::uint64_t bytes_below(std::span<const std::byte> records, std::uint64_t record_bytes, std::uint64_t row) {
  std::uint64_t low = 0;
  std::uint64_t high = records.size() / record_bytes;
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    const bool is_below = read_index(records.data() + middle * record_bytes).i < row;
    (is_below ? low : high) = is_below ? middle + 1 : middle;
  }
  return low * record_bytes;
}

/// A piece of the file on its way to rank 0: offset, length, bytes.
void add_piece(Bytes& to, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::array<std::uint64_t, 2> head = {offset, bytes.size()};
  const auto* const words = reinterpret_cast<const std::byte*>(head.data());
  to.insert(to.end(), words, words + sizeof head);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

RoundSink::RoundSink(const Communicator& ranks, SharedOutput& output, const Division& division, std::uint32_t m,
                     std::uint64_t limit_bytes)
    : ranks_(ranks),
      output_(output),
      division_(division),
      record_bytes_(output_record_bytes(m)),
      limit_bytes_(limit_bytes) {}

std::uint64_t RoundSink::range_end() const {
  const std::uint64_t range =
      std::uint64_t{round_} * static_cast<std::uint64_t>(ranks_.size()) + static_cast<std::uint64_t>(ranks_.rank());
  return range < division_.borders.size() ? division_.borders[range] : std::numeric_limits<std::uint64_t>::max();
}

void RoundSink::append(std::span<const std::byte> records, std::function<void()> release) {
  const ReleaseOnce release_at_end(std::move(release));
  while (!records.empty()) {
    const std::uint64_t here = bytes_below(records, record_bytes_, range_end());
    take(records.first(here));
    records = records.subspan(here);
    if (!records.empty()) close_round();
  }
}

void RoundSink::take(std::span<const std::byte> records) {
  if (!closed_.empty()) static_cast<void>(closed_.front().sizes.is_done());  // lets messages of the others pass on
  const std::uint64_t wanted = range_bytes_ + records.size();
  if (wanted > range_.size()) grow(wanted);
  if (!records.empty()) std::memcpy(range_.data() + range_bytes_, records.data(), records.size());
  range_bytes_ = wanted;
}

std::uint64_t RoundSink::closed_bytes() const {
  std::uint64_t bytes = 0;
  for (const Closed& closed : closed_) bytes += closed.range.size();
  return bytes;
}

void RoundSink::grow(std::uint64_t wanted) {
  if (wanted + closed_bytes() + range_.size() > limit_bytes_) {
    while (!closed_.empty() && wanted + closed_bytes() > limit_bytes_) {
      finish_round();
      spare_.clear();
    }
  }
  if (wanted > limit_bytes_) {
    throw OutOfMemory(
        "host memory",
        text("the result of a block row does not fit the ", human_bytes(limit_bytes_), " that a rank may keep of it"),
        "raise --memory-limit");
  }
  const std::uint64_t most = std::min(limit_bytes_ - closed_bytes(), division_.max_c_blocks * record_bytes_);
  AlignedArray<std::byte> larger;
  if (range_bytes_ == 0 && !spare_.empty() && spare_.back().size() >= wanted) {
    larger = std::move(spare_.back());
    spare_.pop_back();
  } else {
    larger = AlignedArray<std::byte>(std::max(wanted, std::min(most, std::max(kFirstBytes, 2 * wanted))));
  }
  if (range_bytes_ != 0) std::memcpy(larger.data(), range_.data(), range_bytes_);
  range_ = std::move(larger);
}

void RoundSink::close_round() {
  while (closed_.size() >= kRoundsAhead) finish_round();
  ++round_;
  own_bytes_ += range_bytes_;
  closed_.push_back(
      {.range = std::exchange(range_, {}), .bytes = range_bytes_, .sizes = ranks_.start_gather(range_bytes_)});
  range_bytes_ = 0;
  while (!closed_.empty() && closed_.front().sizes.is_done()) finish_round();
}

void RoundSink::finish_round() {
  const auto start = Clock::now();
  const std::vector<std::uint64_t> sizes = closed_.front().sizes.finish();
  wait_s_ += seconds_since(start);
  Closed closed = std::move(closed_.front());
  closed_.pop_front();
  if (has_failure(sizes)) {
    leave_together(round_ - static_cast<std::uint32_t>(closed_.size()) - 1);
    throw OtherRankFailed();
  }
  const auto own = sizes.begin() + ranks_.rank();
  const std::uint64_t begin = std::accumulate(sizes.begin(), own, end_);
  end_ = std::accumulate(own, sizes.end(), begin);
  check_num_output_blocks((end_ - kHeaderBytes) / record_bytes_);
  if (ranks_.rank() == 0) output_.reserve(end_);
  write_range({closed.range.data(), closed.bytes}, begin);
  spare_.push_back(std::move(closed.range));
}

void RoundSink::leave_together(std::uint32_t failed_round) {
  is_over_ = true;
  // No rank closes a round before those that lie kRoundsAhead before it are finished.
  const std::uint32_t end = std::min(open_end_, failed_round + kRoundsAhead);
  for (; round_ < end; ++round_) closed_.push_back({.range = {}, .bytes = 0, .sizes = ranks_.start_gather(kFailed)});
  for (Closed& closed : closed_) static_cast<void>(closed.sizes.finish());
  closed_.clear();
}

void RoundSink::write_range(std::span<const std::byte> bytes, std::uint64_t begin) {
  if (ranks_.rank() == 0) return write(begin, bytes);
  const PageSplit split = split_pages(begin, begin + bytes.size());
  add_piece(fragments_, split.begin, bytes.first(split.head_bytes()));
  write(split.whole_begin, bytes.subspan(split.head_bytes(), split.whole_bytes()));
  add_piece(fragments_, split.whole_end, bytes.last(split.tail_bytes()));
}

void RoundSink::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const auto start = Clock::now();
  output_.write_at(offset, bytes);
  write_s_ += seconds_since(start);
}

void RoundSink::close_open_rounds() {
  while (round_ < open_end_) close_round();
  while (!closed_.empty()) finish_round();
}

void RoundSink::give_up() {
  if (is_over_) return;
  if (round_ < open_end_) {
    closed_.push_back({.range = {}, .bytes = 0, .sizes = ranks_.start_gather(kFailed)});
    ++round_;
  }
  while (!closed_.empty()) {
    const std::vector<std::uint64_t> sizes = closed_.front().sizes.finish();
    closed_.pop_front();
    if (has_failure(sizes)) return leave_together(round_ - static_cast<std::uint32_t>(closed_.size()) - 1);
  }
}

void RoundSink::send_fragments() {
  ranks_.exchange(
      [&](std::vector<Bytes>& to) {
        to.front() = std::exchange(fragments_, {});
        return false;
      },
      [&](int, std::span<const std::byte> pieces) {
        while (!pieces.empty()) {
          std::array<std::uint64_t, 2> head{};
          std::memcpy(head.data(), pieces.data(), sizeof head);
          write(head[0], pieces.subspan(sizeof head, head[1]));
          pieces = pieces.subspan(sizeof head + head[1]);
        }
      });
}

}  // namespace spmm::dist
