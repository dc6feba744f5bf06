// Ranges of C at their offsets, as soon as the sizes of a round are known.
#include "mpi/output/round_sink.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "mpi/output/page_split.hpp"
#include "spmm/error.hpp"

namespace spmm::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFailed = std::numeric_limits<std::uint64_t>::max();  // instead of a length
constexpr std::uint64_t kFirstBytes = 1u << 20;

double time_since(Clock::time_point start) {
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
      limit_bytes_(limit_bytes) {
  closed_.reserve(kRoundsAhead);
  for (std::uint32_t x = 0; x < kRoundsAhead; ++x) {
    closed_.push_back({.range = {}, .bytes = 0, .sizes = Gathering(ranks.size())});
  }
}

std::uint64_t RoundSink::range_end() const {
  const std::uint64_t range =
      std::uint64_t{round_} * static_cast<std::uint64_t>(ranks_.size()) + static_cast<std::uint64_t>(ranks_.rank());
  return range < division_.borders.size() ? division_.borders[range] : std::numeric_limits<std::uint64_t>::max();
}

void RoundSink::write(std::uint64_t, std::span<const std::byte> records, Release) {
  while (!records.empty()) {
    const std::uint64_t here = bytes_below(records, record_bytes_, range_end());
    take(records.first(here));
    records = records.subspan(here);
    if (!records.empty()) close_round();
  }
}

void RoundSink::take(std::span<const std::byte> records) {
  if (num_closed_ != 0) static_cast<void>(oldest().sizes.is_done());  // lets messages of the others pass on
  const std::uint64_t wanted = range_bytes_ + records.size();
  if (wanted > range_.size()) grow(wanted);
  if (!records.empty()) std::memcpy(range_.data() + range_bytes_, records.data(), records.size());
  range_bytes_ = wanted;
}

std::uint64_t RoundSink::closed_bytes() const {
  std::uint64_t bytes = 0;
  for (const Closed& one : closed_) bytes += one.range.size();
  return bytes;
}

void RoundSink::grow(std::uint64_t wanted) {
  if (wanted + closed_bytes() + range_.size() > limit_bytes_) {
    while (num_closed_ != 0 && wanted + closed_bytes() > limit_bytes_) {
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
  while (num_closed_ >= kRoundsAhead) finish_round();
  own_bytes_ += range_bytes_;
  const std::uint64_t bytes = std::exchange(range_bytes_, 0);
  start_round(std::move(range_), bytes, bytes);
  while (num_closed_ != 0 && oldest().sizes.is_done()) finish_round();
}

void RoundSink::start_round(AlignedArray<std::byte> range, std::uint64_t bytes, std::uint64_t size) noexcept {
  Closed& present = closed(round_);
  present.range = std::move(range);
  present.bytes = bytes;
  present.sizes.start(size);
  ++round_;
  ++num_closed_;
}

void RoundSink::finish_round() {
  const auto start = Clock::now();
  const std::span<const std::uint64_t> sizes = oldest().sizes.finish();
  wait_s_ += time_since(start);
  AlignedArray<std::byte> range = std::move(oldest().range);
  const std::uint64_t bytes = oldest().bytes;
  --num_closed_;
  if (has_failure(sizes)) {
    close_after_failure(round_ - num_closed_ - 1);
    throw OtherRankFailed();
  }
  const auto own = sizes.begin() + ranks_.rank();
  const std::uint64_t begin = std::accumulate(sizes.begin(), own, end_);
  end_ = std::accumulate(own, sizes.end(), begin);
  check_num_output_blocks((end_ - kHeaderBytes) / record_bytes_);
  if (ranks_.rank() == 0) output_.reserve(end_);
  write_range({range.data(), bytes}, begin);
  spare_.push_back(std::move(range));
}

bool RoundSink::drop_round() noexcept {
  const bool is_failed = has_failure(oldest().sizes.finish());
  oldest().range = {};
  --num_closed_;
  if (is_failed) close_after_failure(round_ - num_closed_ - 1);
  return is_failed;
}

void RoundSink::close_after_failure(std::uint32_t failed_round) noexcept {
  is_over_ = true;
  // No rank closes a round before those that lie kRoundsAhead before it are finished.
  const std::uint32_t end = std::min(open_end_, failed_round + kRoundsAhead);
  while (round_ < end) start_round({}, 0, kFailed);
  for (; num_closed_ != 0; --num_closed_) {
    static_cast<void>(oldest().sizes.finish());
    oldest().range = {};
  }
}

void RoundSink::write_range(std::span<const std::byte> bytes, std::uint64_t begin) {
  if (ranks_.rank() == 0) return write(begin, bytes);
  const PageSplit split = split_pages(begin, begin + bytes.size(), page_bytes());
  add_piece(fragments_, split.begin, bytes.first(split.head_bytes()));
  write(split.whole_begin, bytes.subspan(split.head_bytes(), split.whole_bytes()));
  add_piece(fragments_, split.whole_end, bytes.last(split.tail_bytes()));
}

void RoundSink::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const auto start = Clock::now();
  output_.write_at(offset, bytes);
  write_s_ += time_since(start);
}

void RoundSink::close_open_rounds() {
  while (round_ < open_end_) close_round();
  while (num_closed_ != 0) finish_round();
}

void RoundSink::give_up() noexcept {
  if (is_over_) return;
  if (num_closed_ == kRoundsAhead && drop_round()) return;
  if (round_ < open_end_) start_round({}, 0, kFailed);
  while (num_closed_ != 0) {
    if (drop_round()) return;
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

}  // namespace spmm::mpi
