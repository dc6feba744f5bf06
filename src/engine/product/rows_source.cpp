// Counts the records of some block rows, and reads them.
#include "engine/product/rows_source.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "engine/out_of_core/index_pass.hpp"
#include "spmm/arrays.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kPieceBytes = 64u << 10;  // read from the page cache in about 8 us
constexpr std::uint64_t kMostPieces = 1u << 16;

}  // namespace

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

RowsSource::RowsSource(const Source& whole, RowRange rows, std::uint32_t BlockIndex::*key, const Run& run)
    : whole_(whole), rows_(rows), key_(key), header_(whole.header()) {
  const std::uint64_t record = input_record_bytes(header_.m);
  const std::uint64_t num_records = header_.num_blocks;
  piece_records_ = std::max({std::uint64_t{1}, kPieceBytes / record, (num_records + kMostPieces - 1) / kMostPieces});
  before_.assign((num_records + piece_records_ - 1) / piece_records_ + 1, 0);
  std::atomic<std::uint64_t> first = out_of_core::kNoRecord;
  std::atomic<std::uint64_t> behind_last = out_of_core::kNoRecord;  // counted from the end
  out_of_core::for_indices(whole, run, [&](std::uint64_t r, BlockIndex at) {
    if (at.*key_ < rows_.first || at.*key_ >= rows_.end) return;
    std::atomic_ref(before_[r / piece_records_ + 1]).fetch_add(1, std::memory_order_relaxed);
    if (r < first) out_of_core::lower_to(first, r);
    if (num_records - r < behind_last) out_of_core::lower_to(behind_last, num_records - r);
  });
  std::partial_sum(before_.begin(), before_.end(), before_.begin());
  header_.num_blocks = before_.back();
  lies_together_ = header_.num_blocks == 0 || num_records - behind_last + 1 - first == header_.num_blocks;
  first_record_ = header_.num_blocks == 0 ? 0 : first.load();
}

template <class Take>
void RowsSource::for_records(std::uint64_t first, const Take& take) const {
  const std::uint64_t record = input_record_bytes(header_.m);
  auto piece =
      static_cast<std::uint64_t>(std::upper_bound(before_.begin(), before_.end(), first) - before_.begin()) - 1;
  const AlignedArray<std::byte> raw(piece_records_ * record);
  for (; piece + 1 < before_.size(); ++piece) {
    const std::uint64_t here = before_[piece + 1] - before_[piece];
    if (here == 0) continue;
    const std::uint64_t begin = piece * piece_records_;
    const std::uint64_t count = std::min<std::uint64_t>(piece_records_, whole_.header().num_blocks - begin);
    whole_.read(begin, count, raw.data());
    std::uint64_t number = before_[piece];
    for (std::uint64_t r = 0; r < count; ++r) {
      const std::byte* const bytes = raw.data() + r * record;
      const std::uint32_t row = read_index(bytes).*key_;
      if (row < rows_.first || row >= rows_.end) continue;
      if (number++ >= first && !take(begin + r, bytes)) return;
    }
    if (number != before_[piece + 1]) throw_changed_content(name());
  }
}

void RowsSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  if (count == 0) return;
  if (lies_together_) return whole_.read(first_record_ + first, count, dst);
  const std::uint64_t record = input_record_bytes(header_.m);
  for_records(first, [&](std::uint64_t, const std::byte* bytes) {
    std::memcpy(dst, bytes, record);
    dst += record;
    return --count != 0;
  });
}

std::uint64_t RowsSource::place_of(std::uint64_t record) const {
  if (lies_together_) return first_record_ + record;
  std::uint64_t place = 0;
  for_records(record, [&](std::uint64_t found, const std::byte*) {
    place = found;
    return false;
  });
  return place;
}

}  // namespace spmm
