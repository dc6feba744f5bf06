// Order, format and sums of the records of a product.
#include "verify/result_proof.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/records/head.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

constexpr const char* kReportIt = "nothing was written; please report this as a bug with both inputs";

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

bool ResultProof::find_row(std::uint32_t row, const std::function<void(BlockIndex at, const std::byte* values)>& take) {
  std::vector<std::byte> record(record_bytes_);
  std::uint64_t low = 0;
  for (std::uint64_t high = order_.count(); low < high;) {  // the first record that is not before the row
    const std::uint64_t middle = (low + high) / 2;
    if (!sink_.read_back(middle, 1, record.data())) return false;
    if (read_index(record.data()).i < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < order_.count(); ++low) {
    if (!sink_.read_back(low, 1, record.data())) return false;
    const BlockIndex at = read_index(record.data());
    if (at.i != row) break;
    take(at, record.data() + kIndexBytes);
  }
  return true;
}

ProofResult ResultProof::check(std::uint64_t num_blocks) {
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
      run_);
  if (result.num_wrong != 0) throw VerifyError("verify", result.differences, kReportIt);
  return result;
}

}  // namespace spmm
