// High bytes of both operands packed into tiles, multiplied panel by panel.
#include "verify/rows/host_bounds.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/head.hpp"
#include "verify/rows/state.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kTileElements = kBoundTileRows * kBoundTileColumns;
constexpr std::uint32_t kNoPlace = 0xFFFF'FFFFu;

constexpr std::uint64_t ceil_div(std::uint64_t x, std::uint64_t y) {
  return (x + y - 1) / y;
}

/// High bytes of lines (element rows of A or element columns of B), and which chunks of K a tile of lines holds.
struct BytePanel {
  AlignedArray<std::uint8_t> bytes{};
  AlignedArray<std::uint8_t> used{};  // [tiles, chunks]
  std::uint64_t num_chunks = 0;       // of kBoundDepth
  std::uint64_t first = 0;            // the first line
  std::uint64_t num_lines = 0;

  void clear(std::uint64_t first_line, std::uint64_t lines, std::uint64_t lines_per_tile, const Run& run) {
    first = first_line;
    num_lines = lines;
    const std::uint64_t tiles = ceil_div(lines, lines_per_tile);
    const std::uint64_t total = tiles * lines_per_tile * num_chunks * kBoundDepth;
    if (bytes.size() < total) bytes = AlignedArray<std::uint8_t>(total);
    if (used.size() < tiles * num_chunks) used = AlignedArray<std::uint8_t>(tiles * num_chunks);
    constexpr std::uint64_t kGrain = 4u << 20;
    run.parallel_for(total, kGrain, [&](std::uint64_t begin, std::uint64_t end) {
      run.check_cancelled();
      std::memset(bytes.data() + begin, 0, end - begin);
    });
    if (tiles != 0) std::memset(used.data(), 0, tiles * num_chunks);
  }
  /// A block of `m` lines and m terms, which touches two tiles and two chunks at most.
  void mark(std::uint64_t line, std::uint64_t k, std::uint32_t m, std::uint64_t lines_per_tile) const {
    const std::uint64_t last = std::min(line + m, num_lines) - 1;
    for (const std::uint64_t tile : {line / lines_per_tile, last / lines_per_tile}) {
      for (const std::uint64_t chunk : {k / kBoundDepth, (k + m - 1) / kBoundDepth}) {
        std::atomic_ref(used[tile * num_chunks + chunk]).store(1, std::memory_order_relaxed);
      }
    }
  }
};

/// One task, part by part: rows of A that fit together, columns of B that do.
class HostBounds {
 public:
  HostBounds(const BoundTask& task, const BoundTiles& tiles, const Run& run)
      : task_(task),
        tiles_(tiles),
        run_(run),
        m_(task.m()),
        nb_(task.a.header().blocks_per_side()),
        n_(task.a.header().n),
        words_(BoundTask::words_per_row(nb_)),
        scale_(BoundScale::of(task.largest_a, task.largest_b, tiles.bits_a, tiles.bits_b)),
        largest_high_a_((1u << tiles.bits_a) - 1),
        largest_high_b_((1u << tiles.bits_b) - 1),
        places_(nb_) {
    a_.num_chunks = b_.num_chunks = ceil_div(n_, kBoundDepth);
  }

  bool run(std::uint64_t memory_bytes) {
    const std::uint64_t line = a_.num_chunks * kBoundDepth;
    const std::uint64_t half = memory_bytes == 0 ? std::numeric_limits<std::uint64_t>::max() : memory_bytes / 2;
    const std::uint64_t most_rows = half / line / kBoundTileRows * kBoundTileRows;
    const std::uint64_t most_columns = half / line / kBoundTileColumns * kBoundTileColumns;
    if (most_rows < kBoundTileRows || most_rows < m_ || most_columns == 0) return false;
    const std::uint64_t rows_at_once = std::min<std::uint64_t>(most_rows / m_, task_.rows.size());
    const std::uint64_t columns_at_once = std::min<std::uint64_t>(most_columns, n_);
    for (std::uint64_t row = 0; row < task_.rows.size(); row += rows_at_once) {
      load_a(row, std::min<std::uint64_t>(rows_at_once, task_.rows.size() - row));
      for (std::uint64_t column = 0; column < n_; column += columns_at_once) {
        const std::uint64_t columns = std::min<std::uint64_t>(columns_at_once, n_ - column);
        if (b_.num_lines != columns || b_.first != column) load_b(column, columns);
        prove_tiles();
      }
    }
    return true;
  }

 private:
  /// Block rows [first, first + count) of the task.
  void load_a(std::uint64_t first, std::uint64_t count) {
    a_.clear(first * m_, count * m_, kBoundTileRows, run_);
    std::fill(places_.begin(), places_.end(), kNoPlace);
    for (std::uint64_t x = 0; x < count; ++x) places_[task_.rows[first + x]] = static_cast<std::uint32_t>(x);
    for_blocks(task_.a, [&](BlockIndex at, const std::byte* values) {
      const std::uint64_t place = places_[at.i];
      if (place == kNoPlace) return;
      const std::uint64_t k = std::uint64_t{at.j} * m_;
      a_.mark(place * m_, k, m_, kBoundTileRows);
      for (std::uint32_t r = 0; r < m_; ++r, values += std::size_t{m_} * sizeof(std::uint16_t)) {
        std::uint8_t* const to = a_.bytes.data() + (place * m_ + r) * a_.num_chunks * kBoundDepth + k;
        for (std::uint32_t c = 0; c < m_; ++c) to[c] = high_part(values, c, scale_.shift_a, largest_high_a_);
      }
    });
  }

  /// Element columns [first, first + count), in strips: four successive bytes are four terms of one column.
  void load_b(std::uint64_t first, std::uint64_t count) {
    b_.clear(first, count, kBoundTileColumns, run_);
    for_blocks(task_.b, [&](BlockIndex at, const std::byte* values) {
      const std::uint64_t left = std::uint64_t{at.j} * m_;
      const std::uint64_t begin = std::max(left, first);
      const std::uint64_t end = std::min(left + m_, first + count);
      if (begin >= end) return;
      b_.mark(begin - first, std::uint64_t{at.i} * m_, m_, kBoundTileColumns);
      for (std::uint32_t r = 0; r < m_; ++r, values += std::size_t{m_} * sizeof(std::uint16_t)) {
        const std::uint64_t k = std::uint64_t{at.i} * m_ + r;
        const std::uint64_t at_k = k / 4 * (4 * kBoundStrip) + k % 4;
        for (std::uint64_t c = begin; c < end; ++c) {
          const std::uint64_t column = c - first;
          b_.bytes[strip(column) + at_k + column % kBoundStrip * 4] =
              high_part(values, static_cast<std::uint32_t>(c - left), scale_.shift_b, largest_high_b_);
        }
      }
    });
  }

  [[nodiscard]] std::uint64_t strip(std::uint64_t column) const { return column / kBoundStrip * strip_bytes(); }
  [[nodiscard]] std::uint64_t strip_bytes() const { return b_.num_chunks * kBoundDepth * kBoundStrip; }

  /// Cut to what the tiles can take: a larger one means that the file was changed.
  static std::uint8_t high_part(const std::byte* values, std::uint32_t x, std::uint32_t shift, std::uint32_t most) {
    std::uint16_t value = 0;
    std::memcpy(&value, values + std::size_t{x} * sizeof value, sizeof value);
    return static_cast<std::uint8_t>(std::min(std::uint32_t{value} >> shift, most));
  }

  template <class Take>
  void for_blocks(const Source& source, const Take& take) {
    const std::uint64_t record = input_record_bytes(m_);
    for_pieces(source, run_, [&](const std::byte* records, std::uint64_t count, std::uint64_t) {
      for (std::uint64_t x = 0; x < count; ++x, records += record) {
        const BlockIndex at = read_index(records);
        if (at.i < nb_ && at.j < nb_) take(at, records + kIndexBytes);  // else changed since it was read before
      }
    });
  }

  /// Tiles that follow each other share columns of B, so that those stay in the cache.
  void prove_tiles() {
    const std::uint64_t row_tiles = ceil_div(a_.num_lines, kBoundTileRows);
    const std::uint64_t column_tiles = ceil_div(b_.num_lines, kBoundTileColumns);
    run_.parallel_for(row_tiles * column_tiles, 1, [&](std::uint64_t tile, std::uint64_t) {
      run_.check_cancelled();
      prove_tile(tile % row_tiles, tile / row_tiles);
    });
  }

  void prove_tile(std::uint64_t row_tile, std::uint64_t column_tile) const {
    const AlignedArray<std::uint32_t> sums(kTileElements);
    std::fill(sums.begin(), sums.end(), BoundScale::kDone);
    bool any = false;
    for_claims(row_tile, column_tile, [&](std::uint64_t e, std::uint32_t& word, std::uint32_t bit) {
      if ((std::atomic_ref(word).load(std::memory_order_relaxed) & bit) == 0) return;
      sums[e] = 0;
      any = true;
    });
    if (!any) return;
    constexpr std::uint64_t kChunksPerCut = BoundScale::kMaxTerms / kBoundDepth;
    const std::uint64_t line = a_.num_chunks * kBoundDepth;
    const std::uint8_t* const rows = a_.bytes.data() + row_tile * kBoundTileRows * line;
    const std::uint8_t* const columns = b_.bytes.data() + strip(column_tile * kBoundTileColumns);
    std::uint64_t num_added = 0;
    for (std::uint64_t chunk = 0; chunk < a_.num_chunks; ++chunk) {
      if (a_.used[row_tile * a_.num_chunks + chunk] == 0 || b_.used[column_tile * b_.num_chunks + chunk] == 0) continue;
      tiles_.add(rows + chunk * kBoundDepth, line, columns + chunk * kBoundDepth * kBoundStrip, strip_bytes(),
                 sums.data());
      const bool cuts = ++num_added % kChunksPerCut == 0;
      if (tiles_.reach(sums.data(), scale_.limit, cuts ? BoundScale::kDone : 0)) return;
    }
    for_claims(row_tile, column_tile, [&](std::uint64_t e, std::uint32_t& word, std::uint32_t bit) {
      if (sums[e] < scale_.limit) std::atomic_ref(word).fetch_and(~bit, std::memory_order_relaxed);
    });
  }

  /// Calls take(element of the tile, word of the claim, bit) for the elements of a tile that lie in C.
  template <class Take>
  void for_claims(std::uint64_t row_tile, std::uint64_t column_tile, const Take& take) const {
    std::array<std::uint32_t, kBoundTileColumns> cols{};
    const std::uint64_t first_column = column_tile * kBoundTileColumns;
    const std::uint64_t num_columns = std::min<std::uint64_t>(kBoundTileColumns, b_.num_lines - first_column);
    for (std::uint64_t c = 0; c < num_columns; ++c) {
      cols[c] = static_cast<std::uint32_t>((b_.first + first_column + c) / m_);
    }
    for (std::uint64_t r = 0; r < kBoundTileRows; ++r) {
      const std::uint64_t row = row_tile * kBoundTileRows + r;
      if (row >= a_.num_lines) return;
      std::uint32_t* const words = task_.claims.data() + (a_.first + row) / m_ * words_;
      for (std::uint64_t c = 0; c < num_columns; ++c) {
        take(r * kBoundTileColumns + c, words[cols[c] / 32], 1u << cols[c] % 32);
      }
    }
  }

  const BoundTask& task_;
  const BoundTiles& tiles_;
  const Run& run_;
  std::uint32_t m_;
  std::uint32_t nb_;
  std::uint64_t n_;
  std::uint64_t words_;
  BoundScale scale_;
  std::uint32_t largest_high_a_;
  std::uint32_t largest_high_b_;
  std::vector<std::uint32_t> places_;  // [blocks per side] of block rows in the panel of A
  BytePanel a_{};
  BytePanel b_{};
};

}  // namespace

bool prove_on_host(const BoundTask& task, const BoundTiles& tiles, std::uint64_t memory_bytes, const Run& run) {
  if (task.rows.empty()) return true;
  return HostBounds(task, tiles, run).run(memory_bytes);
}

}  // namespace spmm
