// B X, A (B X), and which block rows may saturate.
#include "verify/rows/state.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "spmm/saturate.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kMaxTableBytes = 512u << 20;  // of the first column of X
constexpr std::uint64_t kMoreTableBytes = 4u << 20;   // of each further one

/// Whether column q of X is a table.
bool has_table(std::uint64_t n, std::uint32_t q, std::uint64_t limit_bytes) {
  const std::uint64_t most = q == 0 ? kMaxTableBytes : kMoreTableBytes;
  return n * sizeof(std::uint64_t) <= (limit_bytes == 0 ? most : std::min(most, limit_bytes / 8));
}

/// The end of the run of records of one block row that begins at record x.
std::uint64_t end_of_run(const std::byte* records, std::uint64_t record, std::uint64_t count, std::uint64_t x) {
  const std::uint32_t row = read_index(records + x * record).i;
  for (++x; x < count && read_index(records + x * record).i == row; ++x) {
  }
  return x;
}

void check_indices(const Source& source, const std::byte* records, std::uint64_t count, std::uint64_t first) {
  const std::uint32_t nb = source.header().blocks_per_side();
  const std::uint64_t record = input_record_bytes(source.header().m);
  for (std::uint64_t x = 0; x < count; ++x) {
    const BlockIndex at = read_index(records + x * record);
    if (at.i < nb && at.j < nb) continue;
    throw_index_out_of_range(source, first + x, at);
  }
}

std::uint16_t largest_element(const std::byte* values, std::uint64_t count) {
  std::uint16_t largest = 0;
  for (std::uint64_t e = 0; e < count; ++e) {
    std::uint16_t value = 0;
    std::memcpy(&value, values + e * sizeof value, sizeof value);
    largest = std::max(largest, value);
  }
  return largest;
}

/// Y = A (B X) for one column of X, slab by slab of the rows of B, and what bounds the true sums.
class YPass {
 public:
  YPass(const ProofState& state, const RandomVectors& x, SlotLocks& locks, const SlotSums& to)
      : s_(state), x_(x), locks_(locks), to_(to) {}

  /// Sums of the elements of each element row of A (2^32 - 1 where they are more), wanted or not.
  AlignedArray<std::uint32_t> row_sums{};
  std::atomic<std::uint32_t> largest_a{0};
  std::atomic<std::uint32_t> largest_b{0};

  void run(const Run& run) {
    const std::uint64_t most = std::max<std::uint64_t>(
        1, s_.settings.memory_bytes == 0 ? ~std::uint64_t{0} : s_.settings.memory_bytes / 2 / (s_.m * 8));
    for (std::uint64_t begin = 0; begin < s_.b_rows.size(); begin += std::min(most, s_.b_rows.size() - begin)) {
      begin_ = begin;
      end_ = begin + std::min(most, s_.b_rows.size() - begin);
      bx_ = SlotSums(end_ - begin_, s_.m);
      for_pieces(s_.b, run, [&](const std::byte* records, std::uint64_t count, std::uint64_t first) {
        check_indices(s_.b, records, count, first);
        add_bx(records, count);
      });
      for_pieces(s_.a, run, [&](const std::byte* records, std::uint64_t count, std::uint64_t first) {
        check_indices(s_.a, records, count, first);
        add_y(records, count);
      });
    }
    bx_ = {};
  }

 private:
  void add_bx(const std::byte* records, std::uint64_t count) {
    const std::uint64_t record = input_record_bytes(s_.m);
    RecordRuns runs(s_.kernels.u16, s_.m);
    std::uint16_t largest = 0;
    for (std::uint64_t x = 0, end = 0; x < count; x = end) {
      end = end_of_run(records, record, count, x);
      const std::byte* const head = records + x * record;
      if (begin_ == 0) {
        for (std::uint64_t y = x; y < end; ++y) {
          largest = std::max(largest, largest_element(records + y * record + kIndexBytes, s_.elements()));
        }
      }
      const std::uint32_t slot = s_.b_rows.slot(read_index(head).i);
      if (slot < begin_ || slot >= end_) continue;
      runs.sum(
          end - x, [&](std::uint64_t y) { return head + y * record + kIndexBytes; },
          [&](std::uint64_t y, std::uint64_t* place) { return x_.at(read_index(head + y * record).j, place); },
          [&](const std::uint64_t* sums) {
            const auto guard = locks_.lock(slot);
            bx_.add(slot - begin_, sums);
          });
    }
    raise(largest_b, largest);
  }

  void add_y(const std::byte* records, std::uint64_t count) {
    const std::uint64_t record = input_record_bytes(s_.m);
    RecordRuns runs(s_.kernels.u16, s_.m);
    const bool first = begin_ == 0 && row_sums.size() != 0;
    std::uint16_t largest = 0;
    for (std::uint64_t x = 0, end = 0; x < count; x = end) {
      end = end_of_run(records, record, count, x);
      const std::byte* const head = records + x * record;
      for (std::uint64_t y = x; first && y < end; ++y) {
        largest = std::max(largest, largest_element(records + y * record + kIndexBytes, s_.elements()));
      }
      const std::uint32_t slot = s_.a_rows.slot(read_index(head).i);
      if (slot == RowSlots::kNone) continue;  // the file was changed since its rows were numbered
      if (first) add_row_sums(head, end - x, slot);
      runs.sum(
          end - x, [&](std::uint64_t y) { return head + y * record + kIndexBytes; },
          [&](std::uint64_t y, std::uint64_t*) -> const std::uint64_t* {
            const std::uint32_t row = s_.b_rows.slot(read_index(head + y * record).j);
            return row >= begin_ && row < end_ ? bx_.at(row - begin_) : nullptr;
          },
          [&](const std::uint64_t* sums) {
            const auto guard = locks_.lock(slot);
            to_.add(slot, sums);
          });
    }
    raise(largest_a, largest);
  }

  static void raise(std::atomic<std::uint32_t>& to, std::uint32_t value) {
    for (std::uint32_t seen = to; seen < value && !to.compare_exchange_weak(seen, value);) {
    }
  }

  void add_row_sums(const std::byte* records, std::uint64_t count, std::uint32_t slot) const {
    const std::uint64_t record = input_record_bytes(s_.m);
    std::array<std::uint64_t, kMaxBlockDim> sums{};
    std::array<std::uint64_t, kMaxBlockDim> one{};
    for (std::uint64_t y = 0; y < count; ++y) {
      s_.kernels.rows_u16(records + y * record + kIndexBytes, s_.m, one.data());
      for (std::uint32_t r = 0; r < s_.m; ++r) sums[r] += one[r];
    }
    const auto guard = locks_.lock(slot);
    std::uint32_t* const to = row_sums.data() + std::uint64_t{slot} * s_.m;
    for (std::uint32_t r = 0; r < s_.m; ++r) to[r] = saturate(to[r] + sums[r]);
  }

  const ProofState& s_;
  const RandomVectors& x_;
  SlotLocks& locks_;
  const SlotSums& to_;
  std::uint64_t begin_ = 0;  // rows of B in this slab
  std::uint64_t end_ = 0;
  SlotSums bx_{};
};

}  // namespace

void for_pieces(const Source& source, const Run& run,
                const std::function<void(const std::byte* records, std::uint64_t count, std::uint64_t first)>& body) {
  const std::uint64_t record = input_record_bytes(source.header().m);
  run.parallel_for(source.header().num_blocks, records_of_read(record), [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    const AlignedArray<std::byte> raw((end - begin) * record);
    source.read(begin, end - begin, raw.data());
    body(raw.data(), end - begin, begin);
  });
}

ProofState::ProofState(const Source& left, const Source& right, const ProofSettings& how, const Run& run)
    : a(left),
      b(right),
      settings(how),
      m(left.header().m),
      blocks_per_side(left.header().blocks_per_side()),
      random(how.key),
      a_rows(left, run),
      b_rows(right, run) {
  const std::uint64_t n = a.header().n;
  const auto add_column = [&] {
    const auto q = static_cast<std::uint32_t>(vectors.size());
    vectors.push_back(std::make_unique<RandomVectors>(random, q, n, m, has_table(n, q, settings.memory_bytes), run));
  };
  add_column();
  residual[0] = SlotSums(a_rows.size(), m);
  YPass pass(*this, *vectors[0], locks, residual[0]);
  pass.row_sums = AlignedArray<std::uint32_t>(a_rows.size() * m);
  if (pass.row_sums.size() != 0) std::memset(pass.row_sums.data(), 0, pass.row_sums.size() * sizeof(std::uint32_t));
  pass.run(run);
  largest_a = pass.largest_a;
  largest_b = pass.largest_b;
  may_saturate = AlignedArray<std::uint8_t>(a_rows.size());
  bool any = false;
  for (std::uint64_t slot = 0; slot < a_rows.size(); ++slot) {
    const std::uint32_t* const sums = pass.row_sums.data() + slot * m;
    const std::uint64_t bound = std::uint64_t{*std::max_element(sums, sums + m)} * pass.largest_b;
    may_saturate[slot] = bound >= kMaxVal ? 1 : 0;
    any |= bound >= kMaxVal;
  }
  if (!any) return;
  num_columns = kMaxProofColumns;
  y0 = std::move(residual[0]);
  for (std::uint32_t q = 0; q < num_columns; ++q) {
    if (q > 0) add_column();
    residual[q] = SlotSums(a_rows.size(), m);
  }
}

std::uint64_t ProofState::table_bytes(std::uint64_t n, std::uint32_t columns, std::uint64_t limit_bytes) {
  std::uint64_t bytes = 0;
  for (std::uint32_t q = 0; q < columns; ++q) bytes += has_table(n, q, limit_bytes) ? n * 8 : 0;
  return bytes;
}

void ProofState::add_y(std::uint32_t q, const SlotSums& to, const Run& run) const {
  SlotLocks own;
  YPass(*this, *vectors[q], own, to).run(run);
}

}  // namespace spmm
