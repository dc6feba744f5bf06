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
      order_(record_bytes_),
      watch_(std::make_shared<Watch>()) {
  watch_->sink = this;
  is_watched_ = next_.watch([watch = watch_](std::uint64_t first_block, std::span<const std::byte> records) {
    const std::shared_lock lock(watch->mutex);
    if (watch->sink != nullptr) watch->sink->look(first_block, records);
  });
}

ProofSink::~ProofSink() {
  const std::unique_lock lock(watch_->mutex);
  watch_->sink = nullptr;
}

void ProofSink::append(std::span<const std::byte> records, std::function<void()> release) {
  ReleaseOnce releaser(std::move(release));
  look_in_pieces(num_appended_, records);
  num_appended_ += records.size() / record_bytes_;
  next_.append(records, releaser.hand_on());
}

void ProofSink::append_at(std::uint64_t first_block, std::span<const std::byte> records,
                          std::function<void()> release) {
  ReleaseOnce releaser(std::move(release));
  look_in_pieces(first_block, records);
  next_.append_at(first_block, records, releaser.hand_on());
}

void ProofSink::look_in_pieces(std::uint64_t first_block, std::span<const std::byte> records) {
  if (is_watched_) return;
  constexpr std::uint64_t kPieceBytes = 256u << 10;
  const std::uint64_t count = records.size() / record_bytes_;
  run_.parallel_for(count, std::max<std::uint64_t>(1, kPieceBytes / record_bytes_),
                    [&](std::uint64_t begin, std::uint64_t end) {
                      look(first_block + begin, records.subspan(begin * record_bytes_, (end - begin) * record_bytes_));
                    });
}

void ProofSink::look(std::uint64_t first_block, std::span<const std::byte> records) {
  if (records.empty()) return;
  if (look_) look_(first_block, records);
  const auto timing = run_.clock.scope(Stage::verify);
  if (const auto flaw = order_.add(first_block, records)) {
    throw VerifyError("verify",
                      text("result block (", flaw->at.i, ", ", flaw->at.j, ") follows (", flaw->before.i, ", ",
                           flaw->before.j, flaw->is_duplicate() ? "): it is there twice" : "): out of order"),
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
  std::uint64_t low = 0;
  for (std::uint64_t high = order_.count(); low < high;) {  // the first record that is not before the row
    const std::uint64_t middle = (low + high) / 2;
    if (!next_.read_back(middle, 1, record.data())) return false;
    if (read_index(record.data()).i < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < order_.count(); ++low) {
    if (!next_.read_back(low, 1, record.data())) return false;
    const BlockIndex at = read_index(record.data());
    if (at.i != row) break;
    take(at, record.data() + kIndexBytes);
  }
  return true;
}

ProofResult ProofSink::check(std::uint64_t num_blocks, const Run& run) {
  const std::uint64_t count = order_.count();
  if (!order_.is_whole(count)) {
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
