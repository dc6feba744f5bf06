// Counts picked records piece by piece, and reads them.
#include "io/memory/picked_source.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/run/pieces.hpp"
#include "base/text.hpp"
#include "spmm/arrays.hpp"
#include "spmm/error.hpp"

namespace spmm {

RowRange checked_rows(RowRange rows, std::uint32_t num_rows) {
  constexpr const char* kWhere = "ProductOptions::rows";
  if (rows.end == RowRange{}.end) rows.end = std::max(num_rows, rows.first);
  if (rows.first > rows.end) {
    throw UsageError(kWhere, text(rows.first, ":", rows.end, " ends before it begins"), "give the smaller row first");
  }
  if (rows.end > num_rows) {
    throw UsageError(kWhere,
                     text(rows.first, ":", rows.end, " leaves the product, which has ", num_rows, " block rows"),
                     text("give rows from 0 to ", num_rows, ", the last one not included"));
  }
  return rows;
}

namespace io {

PickedSource::PickedSource(const Source& whole, Picks picks, const Run& run)
    : whole_(whole), picks_(std::move(picks)), header_(whole.header()) {
  constexpr std::uint64_t kBytesOfPiece = 16u << 10;  // read from the page cache in about 3 us
  constexpr std::uint64_t kMostPieces = 1u << 16;
  const auto timing = run.clock.scope(Stage::read);
  const std::uint64_t record = input_record_bytes(header_.m);
  const std::uint64_t num_records = header_.num_blocks;
  piece_records_ = std::max({std::uint64_t{1}, kBytesOfPiece / record, (num_records + kMostPieces - 1) / kMostPieces});
  before_.assign((num_records + piece_records_ - 1) / piece_records_ + 1, 0);
  for_pieces(whole_, 8 * kBytesOfPiece * run.num_threads, run,
             [&](const std::byte* records, std::uint64_t count, std::uint64_t first) {
               for (std::uint64_t x = 0; x < count; ++x) {
                 if (!picks_(read_index(records + x * record))) continue;
                 std::atomic_ref(before_[(first + x) / piece_records_ + 1]).fetch_add(1, std::memory_order_relaxed);
               }
             });
  std::partial_sum(before_.begin(), before_.end(), before_.begin());
  header_.num_blocks = before_.back();
  if (header_.num_blocks == 0) return;
  first_record_ = place_of(0);
  lies_together_ = place_of(header_.num_blocks - 1) - first_record_ + 1 == header_.num_blocks;
}

template <class Take>
void PickedSource::for_records(std::uint64_t first, const Take& take) const {
  const std::uint64_t record = input_record_bytes(header_.m);
  auto piece =
      static_cast<std::uint64_t>(std::upper_bound(before_.begin(), before_.end(), first) - before_.begin()) - 1;
  const AlignedArray<std::byte> raw(piece_records_ * record);
  for (; piece + 1 < before_.size(); ++piece) {
    if (before_[piece + 1] == before_[piece]) continue;
    const std::uint64_t begin = piece * piece_records_;
    const std::uint64_t count = std::min<std::uint64_t>(piece_records_, whole_.header().num_blocks - begin);
    whole_.read(begin, count, raw.data());
    std::uint64_t number = before_[piece];
    for (std::uint64_t r = 0; r < count; ++r) {
      const std::byte* const bytes = raw.data() + r * record;
      if (!picks_(read_index(bytes))) continue;
      if (number++ >= first && !take(begin + r, bytes)) return;
    }
    if (number != before_[piece + 1]) throw_changed_content(name());
  }
}

void PickedSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  if (count == 0) return;
  if (lies_together_) return whole_.read(first_record_ + first, count, dst);
  const std::uint64_t record = input_record_bytes(header_.m);
  for_records(first, [&](std::uint64_t, const std::byte* bytes) {
    std::memcpy(dst, bytes, record);
    dst += record;
    return --count != 0;
  });
}

std::uint64_t PickedSource::place_of(std::uint64_t record) const {
  if (lies_together_) return first_record_ + record;
  std::uint64_t place = 0;
  for_records(record, [&](std::uint64_t found, const std::byte*) {
    place = found;
    return false;
  });
  return place;
}

}  // namespace io
}  // namespace spmm
