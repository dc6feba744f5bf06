// Operands loaded in batches of rows and slabs of columns, and exact sums of a row.
#include "verify/rows/exact_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/records/head.hpp"
#include "spmm/saturate.hpp"
#include "verify/rows/state.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kPairsPerCheck = 4;  // between two looks at whether a block is saturated everywhere
constexpr std::uint64_t kMaxSlabs = 4096;

bool all_saturated(const std::uint64_t* sums, std::uint64_t count) {
  return std::all_of(sums, sums + count, [](std::uint64_t sum) { return sum >= kMaxVal; });
}

/// Blocks of a source by rows, those that have one. row_of(index) = the number of the row or RowSlots::kNone.
template <class RowOf>
StoredBlocks load(const Source& source, std::uint64_t num_rows, const RowOf& row_of, const Run& run) {
  const std::uint32_t m = source.header().m;
  const std::uint64_t elements = std::uint64_t{m} * m;
  const std::uint64_t record = input_record_bytes(m);
  StoredBlocks blocks;
  blocks.begins = AlignedArray<std::uint64_t>(num_rows + 1);
  std::uint64_t* const begins = blocks.begins.data();
  std::fill_n(begins, num_rows + 1, 0);
  const std::uint32_t nb = source.header().blocks_per_side();
  const auto number = [&](const std::byte* at) {  // out of range: the file was changed since it was read before
    const BlockIndex index = read_index(at);
    return index.i < nb && index.j < nb ? row_of(index) : RowSlots::kNone;
  };
  for_pieces(source, run, [&](const std::byte* records, std::uint64_t count, std::uint64_t) {
    for (std::uint64_t x = 0; x < count; ++x) {
      const std::uint32_t row = number(records + x * record);
      if (row != RowSlots::kNone) std::atomic_ref(begins[row]).fetch_add(1, std::memory_order_relaxed);
    }
  });
  std::uint64_t total = 0;
  for (std::uint64_t row = 0; row <= num_rows; ++row) {
    total += begins[row];
    begins[row] = total;  // the end of the row, which goes down to its begin below
  }
  blocks.cols = AlignedArray<std::uint32_t>(total);
  blocks.values = AlignedArray<std::uint16_t>(total * elements);
  for_pieces(source, run, [&](const std::byte* records, std::uint64_t count, std::uint64_t) {
    for (std::uint64_t x = 0; x < count; ++x) {
      const std::byte* const at = records + x * record;
      const std::uint32_t row = number(at);
      if (row == RowSlots::kNone) continue;
      const std::uint64_t place = std::atomic_ref(begins[row]).fetch_sub(1, std::memory_order_relaxed) - 1;
      if (place >= total) continue;  // changed as well
      blocks.cols[place] = read_index(at).j;
      std::memcpy(blocks.values.data() + place * elements, at + kIndexBytes, elements * sizeof(std::uint16_t));
    }
  });
  return blocks;
}

/// Bytes of one block in memory.
std::uint64_t stored_bytes(std::uint32_t m) {
  return std::uint64_t{m} * m * sizeof(std::uint16_t) + sizeof(std::uint32_t);
}

/// How many slabs of block columns of B fit one after the other.
std::uint64_t num_slabs_of(const MatrixHeader& b, std::uint64_t memory_bytes) {
  if (memory_bytes == 0) return 1;
  const std::uint64_t slabs = b.num_blocks * stored_bytes(b.m) / std::max<std::uint64_t>(1, memory_bytes) + 1;
  return std::min({slabs, kMaxSlabs, std::uint64_t{b.blocks_per_side()}});
}

/// Ends of batches of rows whose blocks of A fit together.
std::vector<std::size_t> batch_ends(const Source& a, std::span<const std::uint32_t> rows, std::uint64_t memory_bytes,
                                    const Run& run) {
  if (memory_bytes == 0 || a.header().num_blocks * stored_bytes(a.header().m) <= memory_bytes) return {rows.size()};
  const std::uint64_t record = input_record_bytes(a.header().m);
  std::vector<std::uint64_t> counts(rows.size());
  for_pieces(a, run, [&](const std::byte* records, std::uint64_t count, std::uint64_t) {
    for (std::uint64_t x = 0; x < count; ++x) {
      const std::uint32_t row = read_index(records + x * record).i;
      const auto found = std::lower_bound(rows.begin(), rows.end(), row);
      if (found == rows.end() || *found != row) continue;
      std::atomic_ref(counts[static_cast<std::size_t>(found - rows.begin())]).fetch_add(1, std::memory_order_relaxed);
    }
  });
  std::vector<std::size_t> ends;
  std::uint64_t in_batch = 0;
  for (std::size_t x = 0; x < rows.size(); ++x) {
    if (in_batch != 0 && (in_batch + counts[x]) * stored_bytes(a.header().m) > memory_bytes) {
      ends.push_back(x);
      in_batch = 0;
    }
    in_batch += counts[x];
  }
  ends.push_back(rows.size());
  return ends;
}

}  // namespace

ExactRow::ExactRow(const StoredBlocks& a, std::uint64_t a_row, const StoredBlocks& b, const RowSlots& b_rows,
                   std::uint32_t m)
    : a_(a), a_row_(a_row), b_(b), b_rows_(b_rows), m_(m), buckets_(64, kNone) {
  for (std::uint64_t x = a.begins[a_row]; x < a.begins[a_row + 1]; ++x) {
    const std::uint32_t slot = b_rows.slot(a.cols[x]);
    if (slot == RowSlots::kNone) continue;
    for (std::uint64_t y = b.begins[slot]; y < b.begins[slot + 1]; ++y) ++pairs_[place_of(b.cols[y])];
  }
}

std::uint64_t ExactRow::bucket_of(std::uint32_t col) const {
  return col * std::uint64_t{0x9E37'79B9'7F4A'7C15u} >> 32 & (buckets_.size() - 1);
}

std::uint32_t ExactRow::find(std::uint32_t col) const {
  for (std::uint64_t at = bucket_of(col);; at = (at + 1) & (buckets_.size() - 1)) {
    if (buckets_[at] == kNone || cols_[buckets_[at]] == col) return buckets_[at];
  }
}

std::uint32_t ExactRow::place_of(std::uint32_t col) {
  std::uint64_t at = bucket_of(col);
  for (; buckets_[at] != kNone; at = (at + 1) & (buckets_.size() - 1)) {
    if (cols_[buckets_[at]] == col) return buckets_[at];
  }
  const auto place = static_cast<std::uint32_t>(cols_.size());
  cols_.push_back(col);
  pairs_.push_back(0);
  buckets_[at] = place;
  if (cols_.size() * 2 > buckets_.size()) grow();
  return place;
}

void ExactRow::grow() {
  buckets_.assign(buckets_.size() * 2, kNone);
  for (std::uint32_t place = 0; place < cols_.size(); ++place) {
    std::uint64_t at = bucket_of(cols_[place]);
    while (buckets_[at] != kNone) at = (at + 1) & (buckets_.size() - 1);
    buckets_[at] = place;
  }
}

void ExactRow::multiply(std::span<const WantedSum> wanted, AddProduct add_product, const Run& run) {
  const std::uint64_t elements = std::uint64_t{m_} * m_;
  std::uint64_t num_sums = 0;
  sum_at_.assign(cols_.size(), 0);
  for (std::size_t place = 0; place < cols_.size(); ++place) {
    if (wanted[place] != WantedSum::none) sum_at_[place] = elements * num_sums++;
  }
  sums_ = AlignedArray<std::uint64_t>(num_sums * elements);
  std::fill(sums_.begin(), sums_.end(), 0);
  std::vector<WantedSum> open(wanted.begin(), wanted.end());
  std::vector<std::uint64_t> num_added(cols_.size(), 0);
  for (std::uint64_t x = a_.begins[a_row_]; x < a_.begins[a_row_ + 1]; ++x) {
    run.check_cancelled();
    const std::uint32_t slot = b_rows_.slot(a_.cols[x]);
    if (slot == RowSlots::kNone) continue;
    for (std::uint64_t y = b_.begins[slot]; y < b_.begins[slot + 1]; ++y) {
      const std::uint32_t place = find(b_.cols[y]);
      if (open[place] == WantedSum::none) continue;
      std::uint64_t* const sums = sums_.data() + sum_at_[place];
      add_product(a_.values.data() + x * elements, b_.values.data() + y * elements, m_, sums);
      ++num_multiplied_;
      if (open[place] != WantedSum::until_saturated || ++num_added[place] % kPairsPerCheck != 0) continue;
      if (all_saturated(sums, elements)) open[place] = WantedSum::none;
    }
  }
}

void for_exact_rows(const Inputs& inputs, const RowSlots& b_rows, std::span<const std::uint32_t> rows,
                    std::uint64_t memory_bytes, const Run& run,
                    const std::function<void(std::size_t number, ExactRow& row, bool first, bool last)>& visit) {
  if (rows.empty()) return;
  const Source& a = inputs.a;
  const Source& b = inputs.b;
  const std::uint64_t nb = b.header().blocks_per_side();
  const std::uint64_t half = memory_bytes / 2;
  const std::uint64_t num_slabs = num_slabs_of(b.header(), half);
  std::size_t begin = 0;
  for (const std::size_t end : batch_ends(a, rows, half, run)) {
    const std::span<const std::uint32_t> batch = rows.subspan(begin, end - begin);
    const StoredBlocks stored_a = load(
        a, batch.size(),
        [&](BlockIndex at) {
          const auto found = std::lower_bound(batch.begin(), batch.end(), at.i);
          const bool is_there = found != batch.end() && *found == at.i;
          return is_there ? static_cast<std::uint32_t>(found - batch.begin()) : RowSlots::kNone;
        },
        run);
    for (std::uint64_t slab = 0; slab < num_slabs; ++slab) {
      const std::uint64_t first_col = slab * nb / num_slabs;
      const std::uint64_t end_col = (slab + 1) * nb / num_slabs;
      const StoredBlocks stored_b = load(
          b, b_rows.size(),
          [&](BlockIndex at) { return at.j >= first_col && at.j < end_col ? b_rows.slot(at.i) : RowSlots::kNone; },
          run);
      run.parallel_for(batch.size(), 1, [&](std::uint64_t x, std::uint64_t) {
        run.check_cancelled();
        ExactRow row(stored_a, x, stored_b, b_rows, a.header().m);
        visit(begin + x, row, slab == 0, slab + 1 == num_slabs);
      });
    }
    begin = end;
  }
}

}  // namespace spmm
