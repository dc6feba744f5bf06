// Counts the records of some rows piece by piece, reads them, and transposes them where they lie.
#include "io/factor_source.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/run/pieces.hpp"
#include "base/text.hpp"
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
namespace {

/// Makes {i, j, block} of each record {j, i, transpose of the block}. Values: kSide = m where that is known while this
/// is compiled, else 0. Shapes: records [count * input_record_bytes(m)], no alignment needed.
template <std::uint32_t kSide>
void transpose_all(std::byte* record, std::uint64_t count, std::uint32_t side) {
  const std::uint32_t m = kSide != 0 ? kSide : side;
  const std::uint64_t bytes = input_record_bytes(m);
  std::array<std::uint16_t, kSide != 0 ? kSide * kSide : kMaxBlockDim * kMaxBlockDim> from;
  for (const std::byte* const end = record + count * bytes; record != end; record += bytes) {
    const BlockIndex at = read_index(record);
    write_index(record, {.i = at.j, .j = at.i});
    std::memcpy(from.data(), record + kIndexBytes, bytes - kIndexBytes);
    for (std::uint32_t r = 0; r < m; ++r) {
      std::byte* const row = record + kIndexBytes + std::uint64_t{r} * m * sizeof from[0];
      for (std::uint32_t c = 0; c < m; ++c) std::memcpy(row + c * sizeof from[0], &from[c * m + r], sizeof from[0]);
    }
  }
}

void transpose_records(std::byte* records, std::uint64_t count, std::uint32_t m) {
  if (m == 1) return transpose_all<1>(records, count, m);
  if (m == 4) return transpose_all<4>(records, count, m);
  if (m == 8) return transpose_all<8>(records, count, m);
  if (m == 16) return transpose_all<16>(records, count, m);
  if (m == 32) return transpose_all<32>(records, count, m);
  transpose_all<0>(records, count, m);
}

class FactorSource final : public Source {
 public:
  FactorSource(const Source& whole, bool is_transposed, RowRange rows, const Run& run)
      : whole_(whole),
        is_transposed_(is_transposed),
        rows_(rows),
        header_(whole.header()),
        has_all_(rows.covers(header_.blocks_per_side())),
        lies_together_(has_all_) {
    if (!has_all_) count_records(run);
  }

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return whole_.name(); }
  void prefetch() const override { whole_.prefetch(); }
  [[nodiscard]] std::string place(std::uint64_t record) const override { return whole_.place(place_of(record)); }
  [[nodiscard]] BlockIndex original_index(BlockIndex index) const override {
    return whole_.original_index(is_transposed_ ? BlockIndex{.i = index.j, .j = index.i} : index);
  }
  void check_unchanged() const override { whole_.check_unchanged(); }

  [[nodiscard]] std::string identity() const override {
    const std::string identity = has_all_ ? whole_.identity() : "";
    return identity.empty() || !is_transposed_ ? identity : identity + ", transposed";
  }

  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    if (!is_transposed_) return read_plain(first, count, dst);
    constexpr std::uint64_t kBytesAtOnce = 256u << 10;  // still in the cache when they are transposed
    const std::uint64_t bytes = input_record_bytes(header_.m);
    const std::uint64_t per_piece = std::max<std::uint64_t>(1, kBytesAtOnce / bytes);
    for (std::uint64_t here = 0; count != 0; first += here, count -= here, dst += here * bytes) {
      here = std::min(count, per_piece);
      read_plain(first, here, dst);
      transpose_records(dst, here, header_.m);
    }
  }

 private:
  /// Whether a record of `whole` is one of these rows.
  [[nodiscard]] bool has(const std::byte* record) const {
    const BlockIndex at = read_index(record);
    const std::uint32_t row = is_transposed_ ? at.j : at.i;
    return row >= rows_.first && row < rows_.end;
  }

  void count_records(const Run& run) {
    constexpr std::uint64_t kBytesOfPiece = 16u << 10;  // read from the page cache in about 3 us
    constexpr std::uint64_t kMostPieces = 1u << 16;
    const auto timing = run.clock.scope(Stage::read);
    const std::uint64_t record = input_record_bytes(header_.m);
    const std::uint64_t num_records = header_.num_blocks;
    piece_records_ =
        std::max({std::uint64_t{1}, kBytesOfPiece / record, (num_records + kMostPieces - 1) / kMostPieces});
    before_.assign((num_records + piece_records_ - 1) / piece_records_ + 1, 0);
    for_pieces(whole_, 8 * kBytesOfPiece * run.num_threads, run,
               [&](const std::byte* records, std::uint64_t count, std::uint64_t first) {
                 for (std::uint64_t x = 0; x < count; ++x) {
                   if (!has(records + x * record)) continue;
                   std::uint32_t& counted = before_[(first + x) / piece_records_ + 1];
                   std::atomic_ref(counted).fetch_add(1, std::memory_order_relaxed);
                 }
               });
    std::partial_sum(before_.begin(), before_.end(), before_.begin());
    header_.num_blocks = before_.back();
    if (header_.num_blocks == 0) return;
    first_record_ = place_of(0);
    lies_together_ = place_of(header_.num_blocks - 1) - first_record_ + 1 == header_.num_blocks;
  }

  /// Calls take(record of `whole`, its bytes) for records of the rows from `first` on, until it returns false.
  /// Errors: FormatError if `whole` has changed.
  template <class Take>
  void for_records(std::uint64_t first, const Take& take) const {
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
        if (has(bytes) && number++ >= first && !take(begin + r, bytes)) return;
      }
      if (number != before_[piece + 1]) throw_changed_content(name());
    }
  }

  void read_plain(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
    if (count == 0) return;
    if (lies_together_) return whole_.read(first_record_ + first, count, dst);
    const std::uint64_t record = input_record_bytes(header_.m);
    for_records(first, [&](std::uint64_t, const std::byte* bytes) {
      std::memcpy(dst, bytes, record);
      dst += record;
      return --count != 0;
    });
  }

  /// Where a record is in `whole`.
  [[nodiscard]] std::uint64_t place_of(std::uint64_t record) const {
    if (lies_together_) return first_record_ + record;
    std::uint64_t place = 0;
    for_records(record, [&](std::uint64_t found, const std::byte*) {
      place = found;
      return false;
    });
    return place;
  }

  const Source& whole_;
  bool is_transposed_;
  RowRange rows_;
  MatrixHeader header_;
  bool has_all_;
  bool lies_together_;  ///< its records, in `whole` from first_record_ on
  std::uint64_t first_record_ = 0;
  std::uint64_t piece_records_ = 1;    ///< of `whole`
  std::vector<std::uint32_t> before_;  ///< [pieces + 1] records of the rows in front of each piece
};

}  // namespace

std::unique_ptr<Source> make_factor_source(const Source& whole, bool is_transposed, RowRange rows, const Run& run) {
  return std::make_unique<FactorSource>(whole, is_transposed, rows, run);
}

}  // namespace io
}  // namespace spmm
