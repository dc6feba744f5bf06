// Records checked on the threads that write them, or examined before they go on.
#include "verify/proof_sink.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/records/head.hpp"
#include "base/records/release_once.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

constexpr const char* kReportIt = "nothing was written; please report this as a bug with both inputs";

}  // namespace

ProofSink::ProofSink(Sink& next, Proof& proof, const MatrixHeader& header, const Run& run)
    : next_(next),
      proof_(proof),
      header_(header),
      run_(run),
      record_bytes_(output_record_bytes(header.m)),
      watch_(std::make_shared<Watch>()) {
  set_num_ranges(1);
  watch_->sink = this;
  is_watched_ =
      next_.watch([watch = watch_](std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records) {
        const std::shared_lock lock(watch->mutex);
        if (watch->sink != nullptr) watch->sink->look(range, first_block, records);
      });
}

ProofSink::~ProofSink() {
  const std::unique_lock lock(watch_->mutex);
  watch_->sink = nullptr;
}

void ProofSink::set_num_ranges(std::size_t count) {
  ranges_.clear();
  for (std::size_t x = 0; x < count; ++x) ranges_.emplace_back(record_bytes_);
}

void ProofSink::set_ranges(std::span<const BlockRows> ranges) {
  set_num_ranges(ranges.size());
  for (std::size_t x = 0; x < ranges.size(); ++x) ranges_[x].rows = ranges[x];
  next_.set_ranges(ranges);
}

void ProofSink::append(std::span<const std::byte> records, std::function<void()> release) {
  ReleaseOnce releaser(std::move(release));
  look_in_pieces(0, ranges_.front().num_appended, records);
  ranges_.front().num_appended += records.size() / record_bytes_;
  next_.append(records, releaser.hand_on());
}

void ProofSink::append_to(std::uint32_t range, std::span<const std::byte> records, std::function<void()> release) {
  ReleaseOnce releaser(std::move(release));
  Range& to = ranges_.at(range);
  look_in_pieces(range, to.num_appended, records);
  to.num_appended += records.size() / record_bytes_;
  next_.append_to(range, records, releaser.hand_on());
}

void ProofSink::append_at(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records,
                          std::function<void()> release) {
  ReleaseOnce releaser(std::move(release));
  look_in_pieces(range, first_block, records);
  next_.append_at(range, first_block, records, releaser.hand_on());
}

void ProofSink::look_in_pieces(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records) {
  if (is_watched_) return;
  constexpr std::uint64_t kPieceBytes = 256u << 10;
  const std::uint64_t count = records.size() / record_bytes_;
  run_.parallel_for(
      count, std::max<std::uint64_t>(1, kPieceBytes / record_bytes_), [&](std::uint64_t begin, std::uint64_t end) {
        look(range, first_block + begin, records.subspan(begin * record_bytes_, (end - begin) * record_bytes_));
      });
}

void ProofSink::look(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records) {
  if (records.empty()) return;
  if (look_) look_(range, first_block, records);
  const auto timing = run_.clock.scope(Stage::verify);
  Range& of = ranges_.at(range);
  const std::uint64_t count = records.size() / record_bytes_;
  if (const auto flaw = of.order.add(first_block, records)) {
    throw VerifyError("verify",
                      text("result block (", flaw->at.i, ", ", flaw->at.j, ") follows (", flaw->before.i, ", ",
                           flaw->before.j, flaw->is_duplicate() ? "): it is there twice" : "): out of order"),
                      kReportIt);
  }
  for (const std::uint64_t x : {std::uint64_t{0}, count - 1}) {  // they ascend
    const BlockIndex at = read_index(records.data() + x * record_bytes_);
    if (at.i >= of.rows.begin && at.i < of.rows.end) continue;
    throw VerifyError("verify",
                      text("result block (", at.i, ", ", at.j, ") is in part ", range, ", which has block rows ",
                           of.rows.begin, " to ", of.rows.end),
                      kReportIt);
  }
  const auto flaw = proof_.look(records);
  if (!flaw) return;
  throw VerifyError(
      "verify",
      text("result block (", flaw->at.i, ", ", flaw->at.j,
           flaw->kind == ProofFlaw::Kind::zero_block ? ") is all zero"
                                                     : text(") lies outside 0 to ", header_.blocks_per_side() - 1)),
      kReportIt);
}

bool ProofSink::find_row(std::uint32_t row, const std::function<void(BlockIndex at, const std::byte* values)>& take) {
  std::vector<std::byte> record(record_bytes_);
  for (std::uint32_t range = 0; range < ranges_.size(); ++range) {
    const Range& of = ranges_[range];
    if (row < of.rows.begin || row >= of.rows.end) continue;
    std::uint64_t low = 0;
    for (std::uint64_t high = of.order.count(); low < high;) {  // the first record that is not before the row
      const std::uint64_t middle = (low + high) / 2;
      if (!next_.read_back(range, middle, 1, record.data())) return false;
      if (read_index(record.data()).i < row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    for (; low < of.order.count(); ++low) {
      if (!next_.read_back(range, low, 1, record.data())) return false;
      const BlockIndex at = read_index(record.data());
      if (at.i != row) break;
      take(at, record.data() + kIndexBytes);
    }
  }
  return true;
}

ProofResult ProofSink::check(std::uint64_t num_blocks, const Run& run) {
  std::uint64_t count = 0;
  for (const Range& range : ranges_) {
    count += range.order.count();
    if (range.order.is_whole(range.order.count())) continue;
    throw VerifyError("verify", "records of the result are missing between others, or came twice", kReportIt);
  }
  if (count != num_blocks) {
    throw VerifyError("verify", text("the result has ", count, " blocks, its header says ", num_blocks), kReportIt);
  }
  const ProofResult result = proof_.finish(
      [this](std::uint32_t row, const std::function<void(BlockIndex, const std::byte*)>& take) {
        return find_row(row, take);
      },
      run);
  if (result.num_wrong != 0) throw VerifyError("verify", result.differences, kReportIt);
  return result;
}

}  // namespace spmm
