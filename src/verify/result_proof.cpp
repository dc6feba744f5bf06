// Order, format and sums of the records of a product.
#include "verify/result_proof.hpp"

#include <algorithm>
#include <vector>

#include "base/records/head.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

constexpr const char* kReportIt = "nothing was written; please report this as a bug with both inputs";

/// Errors: VerifyError if there is a flaw.
void refuse(const std::optional<OrderFlaw>& flaw) {
  if (!flaw) return;
  throw VerifyError("verify",
                    text("result block (", flaw->at.i, ", ", flaw->at.j, ") follows (", flaw->before.i, ", ",
                         flaw->before.j, flaw->is_duplicate() ? "): it is there twice" : "): out of order"),
                    kReportIt);
}

}  // namespace

std::optional<OrderFlaw> RecordOrder::add(std::uint64_t first, std::span<const std::byte> records) {
  const std::uint64_t count = records.size() / record_bytes_;
  if (count == 0) return std::nullopt;
  BlockIndex before = read_index(records.data());
  for (std::uint64_t x = 1; x < count; ++x) {
    const BlockIndex at = read_index(records.data() + x * record_bytes_);
    if (!(before < at)) return OrderFlaw{.record = first + x, .before = before, .at = at};
    before = at;
  }
  const std::lock_guard lock(mutex_);
  pieces_.push_back({.begin = first, .end = first + count, .first = read_index(records.data()), .last = before});
  return std::nullopt;
}

std::optional<OrderFlaw> RecordOrder::close() {
  std::sort(pieces_.begin(), pieces_.end(), [](const Piece& x, const Piece& y) { return x.begin < y.begin; });
  for (std::size_t x = 1; x < pieces_.size(); ++x) {
    const BlockIndex before = pieces_[x - 1].last;
    if (!(before < pieces_[x].first)) return OrderFlaw{pieces_[x].begin, before, pieces_[x].first};
  }
  return std::nullopt;
}

bool RecordOrder::is_whole(std::uint64_t count) const {
  std::uint64_t end = 0;
  for (const Piece& piece : pieces_) {
    if (piece.begin != end) return false;
    end = piece.end;
  }
  return end == count;
}

void ResultProof::look(std::uint64_t first_block, std::span<const std::byte> records) {
  constexpr std::uint64_t kPieceBytes = 256u << 10;
  run_.parallel_for(records.size() / record_bytes_, std::max<std::uint64_t>(1, kPieceBytes / record_bytes_),
                    [&](std::uint64_t begin, std::uint64_t end) {
                      look_at_piece(first_block + begin,
                                    records.subspan(begin * record_bytes_, (end - begin) * record_bytes_));
                    });
}

void ResultProof::look_at_piece(std::uint64_t first_block, std::span<const std::byte> records) {
  const auto timing = run_.clock.scope(Stage::verify);
  refuse(order_.add(first_block, records));
  const auto flaw = proof_.look(records);
  if (!flaw) return;
  throw VerifyError(
      "verify",
      text("result block (", flaw->at.i, ", ", flaw->at.j,
           flaw->kind == ProofFlaw::Kind::zero_block ? ") is all zero"
                                                     : text(") lies outside 0 to ", header_.blocks_per_side() - 1)),
      kReportIt);
}

bool ResultProof::find_row(std::uint32_t row, std::uint64_t num_blocks,
                           const std::function<void(BlockIndex at, const std::byte* values)>& take) {
  std::vector<std::byte> record(record_bytes_);
  std::uint64_t low = 0;
  for (std::uint64_t high = num_blocks; low < high;) {  // the first record that is not before the row
    const std::uint64_t middle = (low + high) / 2;
    if (!sink_.read_back(middle, 1, record.data())) return false;
    if (read_index(record.data()).i < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < num_blocks; ++low) {
    if (!sink_.read_back(low, 1, record.data())) return false;
    const BlockIndex at = read_index(record.data());
    if (at.i != row) break;
    take(at, record.data() + kIndexBytes);
  }
  return true;
}

ProofResult ResultProof::check(std::uint64_t num_blocks) {
  refuse(order_.close());
  if (!order_.is_whole(num_blocks)) {
    throw VerifyError("verify", text("records of the result are missing or came twice: its header says ", num_blocks),
                      kReportIt);
  }
  const ProofResult result = proof_.finish(
      [&](std::uint32_t row, const std::function<void(BlockIndex, const std::byte*)>& take) {
        return find_row(row, num_blocks, take);
      },
      run_);
  if (result.num_wrong != 0) throw VerifyError("verify", result.differences, kReportIt);
  return result;
}

}  // namespace spmm
