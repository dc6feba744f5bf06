#include "cpu/operands/operand.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/records/sorted_source.hpp"
#include "base/run/cancellable.hpp"
#include "base/run/parallel.hpp"
#include "base/search.hpp"
#include "cpu/operands/element_operand.hpp"
#include "cpu/operands/order/radix_sort.hpp"
#include "cpu/operands/order/short_keys.hpp"
#include "cpu/operands/pack_block.hpp"
#include "cpu/operands/read_records.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kGrain = 1u << 14;        // records per piece of parallel work
constexpr std::uint64_t kPackedGrain = 1u << 18;  // bytes of records that are packed as a piece
constexpr std::uint64_t kPrefetchRecords = 40;    // records ahead that a gather fetches

using Entries = AlignedArray<SortItem>;  // key = i, j; value = number of the record
static_assert(sizeof(SortItem) == plan::kSortItemBytes);

unsigned index_bits(std::uint32_t blocks_per_side) {
  return static_cast<unsigned>(std::bit_width(std::uint64_t{blocks_per_side} - 1));
}

BlockIndex unpack_key(std::uint64_t key, unsigned bits) {
  return {.i = static_cast<std::uint32_t>(key >> bits),
          .j = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << bits) - 1))};
}

/// Keys of all records, checked. Errors: FormatError for the first record whose index is out of range.
Entries make_entries(const Source& source, const AlignedArray<std::byte>& raw, const Run& run) {
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const std::uint32_t nb = header.blocks_per_side();
  const unsigned bits = index_bits(nb);
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::atomic<std::uint64_t> first_bad = kNone;
  Entries entries(header.num_blocks);
  run.parallel_for(header.num_blocks, kGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    for (std::uint64_t r = begin; r < end; ++r) {
      const BlockIndex at = read_index(raw.data() + r * record);
      entries[r] = {.key = (std::uint64_t{at.i} << bits) | at.j, .value = static_cast<std::uint32_t>(r)};
      if (at.i < nb && at.j < nb) continue;
      std::uint64_t known = first_bad.load();
      while (r < known && !first_bad.compare_exchange_weak(known, r)) {
      }
      return;
    }
  });
  if (first_bad != kNone) {
    throw_index_out_of_range(source, first_bad, read_index(raw.data() + first_bad * record));
  }
  return entries;
}

bool is_sorted(const Entries& entries, const Run& run) {
  bool sorted = true;
  for_ranges(run, entries.size(), [&](std::uint64_t begin, std::uint64_t end) {
    const SortItem* first = entries.data() + begin - (begin == 0 ? 0 : 1);
    const SortItem* last = entries.data() + end;
    const auto by_key = [](const SortItem& x, const SortItem& y) { return x.key < y.key; };
    sorted = sorted && std::is_sorted(first, last, by_key);
  });
  return sorted;
}

/// Fills rows and row_ptr from sorted entries. Errors: FormatError for a position that occurs twice.
void index_rows(const Source& source, const Entries& entries, const Run& run, PackedOperand& out) {
  const MatrixHeader& header = source.header();
  const unsigned bits = index_bits(header.blocks_per_side());
  const std::uint64_t most_rows = std::min(header.num_blocks, header.blocks_per_side());
  out.rows = AlignedArray<std::uint32_t>(most_rows);
  out.row_ptr = AlignedArray<std::uint32_t>(most_rows + 1);
  std::uint64_t num_rows = 0;
  std::uint64_t last_row = std::numeric_limits<std::uint64_t>::max();
  for_ranges(run, entries.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t x = begin; x < end; ++x) {
      const std::uint64_t key = entries[x].key;
      if (x != 0 && key == entries[x - 1].key) {
        throw_duplicate_block(source, entries[x - 1].value, entries[x].value, unpack_key(key, bits));
      }
      if (key >> bits == last_row) continue;
      last_row = key >> bits;
      out.rows[num_rows] = static_cast<std::uint32_t>(last_row);
      out.row_ptr[num_rows] = static_cast<std::uint32_t>(x);
      ++num_rows;
    }
  });
  out.row_ptr[num_rows] = static_cast<std::uint32_t>(entries.size());
  out.rows.truncate(num_rows);
  out.row_ptr.truncate(num_rows + 1);
}

/// What is known of the elements of some blocks.
struct SeenElements {
  std::uint32_t bits = 0;          // that occur in any element
  std::uint64_t large_blocks = 0;  // as in PackedOperand

  void add(std::uint32_t block_bits) {
    bits |= block_bits;
    large_blocks += block_bits >> 15;
  }
  void leave_in(PackedOperand& out) const {
    std::atomic_ref(out.seen_bits).fetch_or(bits, std::memory_order_relaxed);
    std::atomic_ref(out.large_blocks).fetch_add(large_blocks, std::memory_order_relaxed);
  }
};

/// How blocks of one operand are packed.
struct Packing {
  PackBlock pack;
  PackedShape shape;
  std::uint64_t stride;
};

/// Copies columns and blocks into sorted order.
void gather(const AlignedArray<std::byte>& raw, const Entries& entries, unsigned bits, const Packing& packing,
            const Run& run, PackedOperand& out) {
  const std::uint64_t record = input_record_bytes(packing.shape.m);
  run.parallel_for(entries.size(), kGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    SeenElements seen;
    for (std::uint64_t x = begin; x < end; ++x) {
      if (x + kPrefetchRecords < end) {
        const std::byte* ahead = raw.data() + entries[x + kPrefetchRecords].value * record;
        __builtin_prefetch(ahead);
        __builtin_prefetch(ahead + 64);
        __builtin_prefetch(ahead + record - 1);
      }
      out.cols[x] = unpack_key(entries[x].key, bits).j;
      seen.add(packing.pack(packing.shape, raw.data() + entries[x].value * record + kIndexBytes,
                            out.values.data() + x * packing.stride));
    }
    seen.leave_in(out);
  });
}

/// Errors: always FormatError, with the first two records at this position.
[[noreturn]] void throw_first_duplicate(const Source& source, const AlignedArray<std::byte>& raw, BlockIndex at,
                                        const Run& run) {
  const std::uint64_t record = input_record_bytes(source.header().m);
  std::uint64_t numbers[2] = {0, 0};
  std::size_t found = 0;
  for_ranges(run, source.header().num_blocks, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end && found < 2; ++r) {
      const BlockIndex here = read_index(raw.data() + r * record);
      if (here.i == at.i && here.j == at.j) numbers[found++] = r;
    }
  });
  throw_duplicate_block(source, numbers[0], numbers[1], at);
}

/// Records per piece that is packed.
std::uint64_t packed_grain(const MatrixHeader& header) {
  return std::clamp<std::uint64_t>(kPackedGrain / input_record_bytes(header.m), 64, kGrain);
}

/// The number of block rows that start before each piece of `grain` records, and of all. Shapes: returns [pieces + 1].
/// Errors: FormatError for the first position that occurs twice.
std::vector<std::uint32_t> count_rows(const Source& source, const AlignedArray<std::byte>& raw, const ShortKeys& keys,
                                      const Run& run) {
  const std::uint64_t grain = packed_grain(source.header());
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint32_t> rows((keys.size() + grain - 1) / grain + 1, 0);
  std::atomic<std::uint64_t> first_twice = kNone;
  run.parallel_for(keys.size(), grain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    std::uint32_t count = 0;
    keys.visit(begin, end, [&](std::uint64_t x, BlockIndex, bool starts_row, bool is_twice) {
      count += starts_row ? 1 : 0;
      if (!is_twice) return;
      std::uint64_t known = first_twice.load();
      while (x < known && !first_twice.compare_exchange_weak(known, x)) {
      }
    });
    rows[begin / grain + 1] = count;
  });
  if (first_twice != kNone) {
    keys.visit(first_twice, first_twice + 1,
               [&](std::uint64_t, BlockIndex at, bool, bool) { throw_first_duplicate(source, raw, at, run); });
  }
  std::partial_sum(rows.begin(), rows.end(), rows.begin());
  return rows;
}

/// Fills the rows, columns and blocks of some entries.
SeenElements fill_entries(const AlignedArray<std::byte>& raw, const ShortKeys& keys, std::uint64_t begin,
                          std::uint64_t end, std::uint32_t row, const Packing& packing, PackedOperand& out) {
  const std::uint64_t record = input_record_bytes(packing.shape.m);
  SeenElements seen;
  keys.visit(begin, end, [&](std::uint64_t x, BlockIndex at, bool starts_row, bool) {
    out.cols[x] = at.j;
    if (starts_row) {
      out.rows[row] = at.i;
      out.row_ptr[row] = static_cast<std::uint32_t>(x);
      ++row;
    }
    if (x + kPrefetchRecords < end) {
      const std::byte* ahead = raw.data() + keys.payload(x + kPrefetchRecords) * record;
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + 64);
      __builtin_prefetch(ahead + record - 1);
    }
    seen.add(packing.pack(packing.shape, raw.data() + keys.payload(x) * record + kIndexBytes,
                          out.values.data() + x * packing.stride));
  });
  return seen;
}

/// build_operand() where positions fit short keys.
PackedOperand build_from_short_keys(const Source& source, const AlignedArray<std::byte>& raw,
                                    AlignedArray<std::uint64_t> heads, const Packing& packing, const Run& run) {
  const MatrixHeader& header = source.header();
  const ShortKeys keys(source, std::move(heads), run);
  const std::vector<std::uint32_t> rows = count_rows(source, raw, keys, run);
  const std::uint64_t most_rows = std::min(header.num_blocks, header.blocks_per_side());
  const std::uint64_t grain = packed_grain(header);
  PackedOperand out;
  out.rows = AlignedArray<std::uint32_t>(most_rows);
  out.row_ptr = AlignedArray<std::uint32_t>(most_rows + 1);
  out.cols = AlignedArray<std::uint32_t>(header.num_blocks);
  out.values = AlignedArray<std::uint16_t>(header.num_blocks * packing.stride);
  out.rows.truncate(rows.back());
  out.row_ptr.truncate(rows.back() + std::uint64_t{1});
  out.row_ptr[rows.back()] = header.num_blocks;
  run.parallel_for(keys.size(), grain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    fill_entries(raw, keys, begin, end, rows[begin / grain], packing, out).leave_in(out);
  });
  return out;
}

std::uint64_t stride_of(Side side, const PackedShape& shape) {
  return side == Side::a ? shape.a_elements() : shape.b_elements();
}

}  // namespace

PackedOperand build_operand(const Source& source, Side side, const PackedShape& shape, Progress& progress,
                            const Run& run) {
  const MatrixHeader& header = source.header();
  if (header.m == 1 && is_sorted(source)) return build_sorted_elements(source, progress, run);
  if (plan::builds_from_runs(header)) return build_element_operand(source, progress, run);
  static_assert(kIndexBytes == sizeof(std::uint64_t));
  const bool has_short_keys = plan::short_key_bits(header).fit();
  AlignedArray<std::uint64_t> heads(has_short_keys ? header.num_blocks : 0);
  auto* const to = has_short_keys ? reinterpret_cast<std::byte*>(heads.data()) : nullptr;
  const AlignedArray<std::byte> raw = read_records(source, progress, run, to);
  const auto timing = run.clock.scope(Stage::build);
  const Packing packing{.pack = side == Side::a ? choose_pack_a(shape) : choose_pack_b(shape),
                        .shape = shape,
                        .stride = stride_of(side, shape)};
  if (has_short_keys) return build_from_short_keys(source, raw, std::move(heads), packing, run);
  const unsigned bits = index_bits(header.blocks_per_side());
  Entries entries = make_entries(source, raw, run);
  if (!is_sorted(entries, run)) {
    const Entries scratch(entries.size());
    radix_sort({entries.data(), entries.size()}, scratch.data(), 0, 2 * bits, run.num_threads, &run);
  }
  PackedOperand out;
  index_rows(source, entries, run, out);
  out.cols = AlignedArray<std::uint32_t>(header.num_blocks);
  out.values = AlignedArray<std::uint16_t>(header.num_blocks * packing.stride);
  gather(raw, entries, bits, packing, run, out);
  return out;
}

PairCounts link_rows(PackedOperand& a, const PackedOperand& b, const AlignedArray<std::uint32_t>& b_tiles,
                     std::uint32_t blocks_per_side, const Run& run) {
  const bool has_all_rows = b.num_rows() == blocks_per_side;  // then positions are block rows
  AlignedArray<std::uint32_t> table;                          // [blocks_per_side], where it pays
  if (!has_all_rows && plan::has_row_table(blocks_per_side, a.cols.size() + b.cols.size())) {
    table = AlignedArray<std::uint32_t>(blocks_per_side);
    for_ranges(run, table.size(), [&](std::uint64_t begin, std::uint64_t end) {
      std::fill(table.data() + begin, table.data() + end, kNoRow);
    });
    for_ranges(run, b.num_rows(), [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t r = begin; r < end; ++r) table[b.rows[r]] = static_cast<std::uint32_t>(r);
    });
  }
  // Columns ascend within a row of A: a search begins where the last one ended.
  const auto find_row = [&](std::uint32_t row, const std::uint32_t*& near) {
    if (table.size() != 0) return table[row];
    near = lower_bound_near(near, static_cast<const std::uint32_t*>(b.rows.end()), row);
    return near != b.rows.end() && *near == row ? static_cast<std::uint32_t>(near - b.rows.begin()) : kNoRow;
  };
  PairCounts pairs{.of_rows = AlignedArray<std::uint64_t>(a.num_rows())};
  std::atomic<std::uint64_t> num_tiles = 0;
  const bool has_tiles = b_tiles.size() != 0;
  run.parallel_for(a.num_rows(), 256, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    std::uint64_t tiles = 0;
    for (std::uint64_t r = begin; r < end; ++r) {
      std::uint64_t of_row = 0;
      const std::uint32_t* near = b.rows.begin();
      for (std::uint32_t x = a.row_ptr[r]; x < a.row_ptr[r + 1]; ++x) {
        std::uint32_t row = a.cols[x];
        if (!has_all_rows) {
          row = find_row(row, near);
          a.cols[x] = row;
          if (row == kNoRow) continue;
        }
        of_row += b.row_ptr[row + 1] - b.row_ptr[row];
        if (has_tiles) tiles += b_tiles[row + std::uint64_t{1}] - b_tiles[row];
      }
      pairs.of_rows[r] = of_row;
    }
    num_tiles += tiles;
  });
  pairs.num_tiles = num_tiles;
  return pairs;
}

}  // namespace spmm::cpu
