// Ranges of operands in memory, and the plain loops over them.
#include "verify/exact_rows.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <numeric>

#include "base/records/head.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kSumBytes = 512u << 10;  // of a thread at most: they stay in its second-level cache
constexpr std::uint64_t kLeastSumBytes = 32u << 10;
constexpr std::uint32_t kFetchedAhead = 4;  // blocks of B

/// Whether every row gets a number: an array of all of them costs little compared with the records.
bool numbers_all(const MatrixHeader& header) {
  constexpr std::uint64_t kFewRows = 1u << 12;
  constexpr std::uint64_t kRowsPerBlock = 2;
  return header.blocks_per_side() <= std::max(kFewRows, kRowsPerBlock * header.num_blocks);
}

std::uint32_t column(std::uint64_t key) {
  return static_cast<std::uint32_t>(key >> 32);
}

/// sums = min(sums + a b, 2^32 - 1) for columns from c on, Lanes at a time; returns the first that is left. Doubles
/// hold all of it exactly: sums stay below 2^32, and a b has 64 terms at most. Shapes: a [m], b [m, m], sums [m].
template <std::uint32_t Lanes>
[[gnu::always_inline]] inline std::uint32_t add_columns(const double* a, const double* b, std::uint32_t m,
                                                        std::uint32_t c, double* sums) {
  using Vector [[gnu::vector_size(Lanes * sizeof(double))]] = double;
  constexpr double kLimit = kMaxVal;
  for (; c + Lanes <= m; c += Lanes) {
    Vector sum;
    std::memcpy(&sum, sums + c, sizeof sum);
    for (std::uint32_t t = 0; t < m; ++t) {
      Vector row;
      std::memcpy(&row, b + t * m + c, sizeof row);
      sum += a[t] * row;
    }
    const Vector limits = Vector{} + kLimit;
    sum = sum < limits ? sum : limits;
    std::memcpy(sums + c, &sum, sizeof sum);
  }
  return c;
}

/// The same for rows of a block. Shapes: a [num_rows, m], b [m, m], sums [num_rows, m]. Values: FixedM is m, or 0.
template <std::uint32_t FixedM>
[[gnu::always_inline]] inline void add_product(const double* a, std::uint64_t num_rows, const std::uint16_t* b,
                                               std::uint32_t given_m, double* sums) {
  const std::uint32_t m = FixedM != 0 ? FixedM : given_m;
  alignas(64) std::array<double, FixedM != 0 ? FixedM * FixedM : kMaxBlockDim * kMaxBlockDim> factors;
  for (std::uint32_t e = 0; e < m * m; ++e) factors[e] = b[e];
  for (std::uint64_t r = 0; r < num_rows; ++r) {
    std::uint32_t c = add_columns<8>(a + r * m, factors.data(), m, 0, sums + r * m);
    c = add_columns<4>(a + r * m, factors.data(), m, c, sums + r * m);
    c = add_columns<2>(a + r * m, factors.data(), m, c, sums + r * m);
    add_columns<1>(a + r * m, factors.data(), m, c, sums + r * m);
  }
}

[[gnu::always_inline]] inline void add_product_of_side(const double* a, std::uint64_t num_rows, const std::uint16_t* b,
                                                       std::uint32_t m, double* sums) {
  if (m == 8) return add_product<8>(a, num_rows, b, m, sums);
  if (m == 4) return add_product<4>(a, num_rows, b, m, sums);
  if (m == 2) return add_product<2>(a, num_rows, b, m, sums);
  if (m == 1) return add_product<1>(a, num_rows, b, m, sums);
  add_product<0>(a, num_rows, b, m, sums);
}

using AddProduct = void (*)(const double* a, std::uint64_t num_rows, const std::uint16_t* b, std::uint32_t m,
                            double* sums);

void add_product_anywhere(const double* a, std::uint64_t num_rows, const std::uint16_t* b, std::uint32_t m,
                          double* sums) {
  add_product_of_side(a, num_rows, b, m, sums);
}

#if defined(__x86_64__)
// The same loops, which the compiler puts into longer vectors.
[[gnu::target("avx2,fma")]] void add_product_avx2(const double* a, std::uint64_t num_rows, const std::uint16_t* b,
                                                  std::uint32_t m, double* sums) {
  add_product_of_side(a, num_rows, b, m, sums);
}

[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq,fma,prefer-vector-width=512")]] void add_product_avx512(
    const double* a, std::uint64_t num_rows, const std::uint16_t* b, std::uint32_t m, double* sums) {
  add_product_of_side(a, num_rows, b, m, sums);
}
#endif

AddProduct fastest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma")) {
    return add_product_avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return add_product_avx2;
#endif
  return add_product_anywhere;
}

/// Counts at begins[x + 2] become begins: row x begins at begins[x + 1], which moves to its end as its blocks are
/// placed.
void sum_up(const AlignedArray<std::uint32_t>& begins) {
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
}

/// A block in memory, with its key.
std::uint64_t block_bytes(std::uint32_t m) {
  return std::uint64_t{2} * m * m + sizeof(std::uint64_t);
}

/// The memory_bytes, of which three eighths are for B, a quarter is for A, that hold this many blocks.
std::uint64_t memory_for_b(std::uint64_t num_blocks, std::uint32_t m) {
  return (num_blocks * block_bytes(m) * 8 + 2) / 3;
}
std::uint64_t memory_for_a(std::uint64_t num_blocks, std::uint32_t m) {
  constexpr std::uint64_t kMeetingBytes = 12;  // ExactRows::Scratch::Meeting
  return num_blocks * (block_bytes(m) + kMeetingBytes) * 4;
}

/// How often A is read: B is loaded by ranges of columns, halved until they fit, and for each of them A by ranges of
/// rows.
double readings_of_a(std::uint64_t a_blocks, std::uint64_t b_blocks, std::uint32_t m, std::uint64_t memory_bytes) {
  const std::uint64_t b_ranges = std::bit_ceil(memory_for_b(b_blocks, m) / memory_bytes + 1);
  return static_cast<double>(b_ranges) * static_cast<double>(memory_for_a(a_blocks, m) / memory_bytes + 1);
}

/// The memory_bytes, no less than given, with which that takes no more than seconds, or no more than some readings.
std::uint64_t memory_for_readings(const MatrixHeader& a, std::uint64_t a_blocks, std::uint64_t b_blocks,
                                  std::uint64_t memory_bytes) {
  constexpr double kFewReadings = 64;
  constexpr double kFewBytes = 16e9;  // 15 s from the page cache
  const double most = std::max(
      kFewReadings, kFewBytes / static_cast<double>(input_record_bytes(a.m)) / std::max(1.0, 1.0 * a.num_blocks));
  while (readings_of_a(a_blocks, b_blocks, a.m, memory_bytes) > most) memory_bytes += memory_bytes / 16 + 1;
  return memory_bytes;
}

/// The most blocks of a block row or block column (key = BlockIndex::i or j); if there is no memory for a counter of
/// each, of several together.
std::uint32_t longest_line(const Source& source, std::uint32_t BlockIndex::*key, std::uint64_t limit_bytes,
                           const Run& run) {
  constexpr std::uint64_t kCounterShare = 16;  // of the limit
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  std::vector<std::uint32_t> counts(
      std::clamp<std::uint64_t>(limit_bytes / kCounterShare, 1, std::max(1U, header.blocks_per_side())));
  for_pieces(source, limit_bytes, run, [&](const std::byte* records, std::uint64_t count, std::uint64_t) {
    for (std::uint64_t x = 0; x < count; ++x) {
      const std::uint32_t line = read_index(records + x * record).*key;
      std::atomic_ref(counts[line % counts.size()]).fetch_add(1, std::memory_order_relaxed);
    }
  });
  return *std::max_element(counts.begin(), counts.end());
}

std::uint32_t take_place(std::uint32_t& next) {
  return std::atomic_ref(next).fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::uint64_t RowSlots::most_slots(const MatrixHeader& header) {
  if (header.num_blocks == 0) return 0;
  return numbers_all(header) ? header.blocks_per_side() : header.num_blocks;
}

std::uint64_t RowSlots::most_bytes(const MatrixHeader& header) {
  return numbers_all(header) ? 0 : header.num_blocks * sizeof(std::uint32_t);
}

RowSlots::RowSlots(const Source& source, std::uint64_t memory_bytes, const Run& run) {
  const MatrixHeader& header = source.header();
  if (header.num_blocks == 0) return;
  if (numbers_all(header)) {
    size_ = header.blocks_per_side();
    return;
  }
  const std::uint64_t record = input_record_bytes(header.m);
  rows_ = AlignedArray<std::uint32_t>(header.num_blocks);
  for_pieces(source, memory_bytes, run, [&](const std::byte* records, std::uint64_t count, std::uint64_t first) {
    for (std::uint64_t x = 0; x < count; ++x) rows_[first + x] = read_index(records + x * record).i;
  });
  std::sort(rows_.begin(), rows_.end(), [&](std::uint32_t x, std::uint32_t y) {
    run.check_cancelled();
    return x < y;
  });
  rows_.truncate(static_cast<std::uint64_t>(std::unique(rows_.begin(), rows_.end()) - rows_.begin()));
  size_ = rows_.size();
}

/// What a thread holds while it computes rows.
struct ExactRows::Scratch {
  explicit Scratch(std::uint64_t num_sums) : sums(num_sums) {}

  /// A block of A, and the blocks of B that it meets and that are left.
  struct Meeting {
    std::uint32_t a;
    std::uint32_t next;
    std::uint32_t end;
  };

  AlignedArray<double> sums;             // [columns of a window, chosen rows, m]
  std::vector<std::uint64_t> seen;       // a bit for each column of the window: it has a pair
  std::vector<std::uint64_t> saturated;  // the same: all of its sums saturate, whatever else is added
  std::vector<std::uint32_t> cols;       // that were seen
  std::vector<Meeting> meetings;         // of the row
  std::vector<std::uint32_t> rows;       // chosen
  std::vector<double> a;                 // [chosen rows, m] of one block
  std::uint64_t num_pairs = 0;           // that were not reported
};

ExactRows::ExactRows(const Inputs& inputs, const RowSlots& a_rows, const RowSlots& b_rows, const std::uint8_t* chosen,
                     std::uint64_t memory_bytes, std::uint64_t limit_bytes, const Run& run)
    : inputs_(inputs),
      a_rows_(a_rows),
      b_rows_(b_rows),
      chosen_(chosen),
      memory_bytes_(memory_bytes),
      limit_bytes_(limit_bytes),
      run_(run),
      m_(inputs.m()),
      elements_(std::uint64_t{m_} * m_),
      a_begins_(a_rows.size() + 1),
      b_begins_(b_rows.size() + 2),
      meets_(b_rows.size()) {
  const std::uint64_t record = input_record_bytes(m_);
  std::fill(a_begins_.begin(), a_begins_.end(), 0);
  std::fill(meets_.begin(), meets_.end(), 0);
  std::atomic<std::uint64_t> num_a_blocks = 0;
  std::atomic<std::uint64_t> num_a_rows = 0;  // chosen ones of these blocks
  for_pieces(inputs_.a, memory_bytes_, run_, [&](const std::byte* records, std::uint64_t count, std::uint64_t) {
    std::uint64_t own_blocks = 0;
    std::uint64_t own_rows = 0;
    for (std::uint64_t x = 0; x < count; ++x) {
      const BlockIndex at = read_index(records + x * record);
      const std::uint32_t slot = a_rows_.slot(at.i);
      if (slot == RowSlots::kNone || !is_chosen(slot)) continue;
      take_place(a_begins_[slot + 1]);
      own_blocks += 1;
      own_rows += static_cast<std::uint64_t>(std::count(chosen_ + slot * m_, chosen_ + (slot + 1) * m_, 1));
      const std::uint32_t met = b_rows_.slot(at.j);
      if (met != RowSlots::kNone) take_place(meets_[met]);
    }
    num_a_blocks += own_blocks;
    num_a_rows += own_rows;
  });
  for (std::uint64_t slot = 0; slot < a_rows_.size(); ++slot) {
    num_block_rows_ += is_chosen(slot) && a_begins_[slot + 1] != 0 ? 1 : 0;
  }
  sum_up(a_begins_);
  for (std::uint64_t slot = 0; slot < a_rows_.size(); ++slot) {
    const std::uint64_t num = a_begins_[slot + 1] - a_begins_[slot];
    require(memory_for_a(num, m_) / 2, "row", a_rows_.row(slot), inputs_.a, num);  // alone, it may take half
  }

  std::atomic<std::uint64_t> num_pairs = 0;
  std::atomic<std::uint64_t> num_b_blocks = 0;  // that are met
  // Those of each column, if one may be too long and there is room for the counters; else compute_columns() finds it.
  const std::uint64_t nb = inputs_.b.header().blocks_per_side();
  const bool may_lack = memory_for_b(inputs_.b.header().num_blocks, m_) > memory_bytes_;
  std::vector<std::uint32_t> columns(may_lack && nb <= memory_bytes_ / 4 / sizeof(std::uint32_t) ? nb : 0);
  for_pieces(inputs_.b, memory_bytes_, run_, [&](const std::byte* records, std::uint64_t count, std::uint64_t) {
    std::uint64_t own_pairs = 0;
    std::uint64_t own_blocks = 0;
    for (std::uint64_t x = 0; x < count; ++x) {
      const BlockIndex at = read_index(records + x * record);
      const std::uint32_t slot = b_rows_.slot(at.i);
      if (slot == RowSlots::kNone || meets_[slot] == 0) continue;
      own_pairs += meets_[slot];
      own_blocks += 1;
      if (!columns.empty()) take_place(columns[at.j]);
    }
    num_pairs += own_pairs;
    num_b_blocks += own_blocks;
  });
  num_pairs_ = num_pairs;
  for (std::size_t col = 0; col < columns.size(); ++col) {
    require(memory_for_b(columns[col], m_), "column", col, inputs_.b, columns[col]);
  }
  if (memory_bytes_ != 0) {
    num_readings_ = readings_of_a(num_a_blocks, num_b_blocks, m_, memory_bytes_);
    const std::uint64_t need = memory_for_readings(inputs_.a.header(), num_a_blocks, num_b_blocks, memory_bytes_);
    if (need > memory_bytes_) {
      throw_needs(need, text(num_block_rows_, " block rows are computed again, and ", inputs_.a.name(),
                             " would be read ", static_cast<std::uint64_t>(num_readings_), " times: that needs"));
    }
  }
  rows_of_pair_ = num_a_blocks == 0 ? 0 : static_cast<double>(num_a_rows) / static_cast<double>(num_a_blocks);
  progress_.emplace(run_, Stage::verify, num_pairs_);
}

std::uint64_t ExactRows::sure_memory_bytes(const Inputs& inputs, std::uint64_t limit_bytes, const Run& run) {
  const std::uint32_t m = inputs.m();
  const std::uint64_t of_lines = std::max(memory_for_a(longest_line(inputs.a, &BlockIndex::i, limit_bytes, run), m) / 2,
                                          memory_for_b(longest_line(inputs.b, &BlockIndex::j, limit_bytes, run), m));
  const MatrixHeader& a = inputs.a.header();
  return memory_for_readings(a, a.num_blocks, inputs.b.header().num_blocks, std::max<std::uint64_t>(1, of_lines));
}

void ExactRows::require(std::uint64_t need_bytes, const char* line, std::uint64_t number, const Source& source,
                        std::uint64_t num_blocks) const {
  if (memory_bytes_ == 0 || need_bytes <= memory_bytes_) return;
  throw_needs(need_bytes,
              text("block ", line, " ", number, " of ", source.name(), " has ", num_blocks, " blocks, which need"));
}

void ExactRows::throw_needs(std::uint64_t need_bytes, const std::string& why) const {
  const auto limit = static_cast<std::uint64_t>(
      (static_cast<unsigned __int128>(need_bytes) * std::max(limit_bytes_, memory_bytes_) + memory_bytes_ - 1) /
      memory_bytes_);
  throw OutOfMemory("verify", text(why, " a memory limit of ", human_bytes(limit), " (", limit, " bytes)"),
                    "raise EngineOptions::memory_limit_bytes, or verify without it");
}

bool ExactRows::is_chosen(std::uint64_t slot) const {
  return std::memchr(chosen_ + slot * m_, 1, m_) != nullptr;
}

double ExactRows::seconds() const {
  // Measured: src/HISTORY.md.
  constexpr double kPairSeconds = 50e-9;
  constexpr double kReadBytesPerS = 1e9;
  const double product_seconds = m_ % 4 == 0 ? 0.05e-9 : 0.2e-9;  // of two elements
  return static_cast<double>(num_pairs_) *
             (kPairSeconds + product_seconds * rows_of_pair_ * static_cast<double>(elements_)) / run_.num_threads +
         num_readings_ * static_cast<double>(input_record_bytes(m_)) * inputs_.a.header().num_blocks / kReadBytesPerS;
}

/// `num` blocks of a source. Values: place(index) = of a block among them, or a larger number for all others.
template <class Place>
ExactRows::Blocks ExactRows::load(const Source& source, std::uint64_t num, const Place& place) {
  const std::uint64_t record = input_record_bytes(m_);
  Blocks blocks{.keys = AlignedArray<std::uint64_t>(num), .values = AlignedArray<std::uint16_t>(num * elements_)};
  std::fill(blocks.keys.begin(), blocks.keys.end(), 0);  // the file may have become another one
  for_pieces(source, memory_bytes_, run_, [&](const std::byte* records, std::uint64_t count, std::uint64_t) {
    for (std::uint64_t x = 0; x < count; ++x) {
      const BlockIndex at = read_index(records + x * record);
      const std::uint64_t to = place(at);
      if (to >= num) continue;
      blocks.keys[to] = std::uint64_t{at.j} << 32 | to;
      std::memcpy(blocks.values.data() + to * elements_, records + x * record + kIndexBytes, elements_ * 2);
    }
  });
  return blocks;
}

ExactRows::Blocks ExactRows::load_a(Range slots) {
  const std::uint64_t first = a_begins_[slots.begin];
  AlignedArray<std::uint32_t> next(slots.end - slots.begin);
  std::copy(a_begins_.data() + slots.begin, a_begins_.data() + slots.end, next.begin());
  return load(inputs_.a, a_begins_[slots.end] - first, [&](BlockIndex at) -> std::uint64_t {
    const std::uint32_t slot = a_rows_.slot(at.i);
    if (slot < slots.begin || slot >= slots.end || !is_chosen(slot)) return RowSlots::kNone;
    return take_place(next[slot - slots.begin]) - first;
  });
}

/// Slot of a block of B that is to be loaded: in these columns, of a row that is met. kNone for all others.
std::uint32_t ExactRows::loaded_slot(BlockIndex at, Range cols) const {
  if (at.j < cols.begin || at.j >= cols.end) return RowSlots::kNone;
  const std::uint32_t slot = b_rows_.slot(at.i);
  return slot != RowSlots::kNone && meets_[slot] != 0 ? slot : RowSlots::kNone;
}

/// Number of blocks that load_b() loads; sets where its rows begin.
std::uint64_t ExactRows::count_b(Range cols) {
  const std::uint64_t record = input_record_bytes(m_);
  std::fill(b_begins_.begin(), b_begins_.end(), 0);
  for_pieces(inputs_.b, memory_bytes_, run_, [&](const std::byte* records, std::uint64_t count, std::uint64_t) {
    for (std::uint64_t x = 0; x < count; ++x) {
      const std::uint32_t slot = loaded_slot(read_index(records + x * record), cols);
      if (slot != RowSlots::kNone) take_place(b_begins_[slot + 2]);
    }
  });
  sum_up(b_begins_);
  return b_begins_[b_rows_.size() + 1];
}

/// Blocks of B in these columns, of rows that are met. Values: count_b() was called with the same columns.
ExactRows::Blocks ExactRows::load_b(Range cols) {
  const std::uint64_t num = b_begins_[b_rows_.size() + 1];
  Blocks blocks = load(inputs_.b, num, [&](BlockIndex at) -> std::uint64_t {
    const std::uint32_t slot = loaded_slot(at, cols);
    return slot == RowSlots::kNone ? slot : take_place(b_begins_[slot + 1]);
  });
  constexpr std::uint64_t kRowsAtATime = 256;
  run_.parallel_for(b_rows_.size(), kRowsAtATime, [&](std::uint64_t begin, std::uint64_t end) {
    run_.check_cancelled();
    for (std::uint64_t slot = begin; slot < end; ++slot) {
      std::sort(blocks.keys.data() + std::min<std::uint64_t>(b_begins_[slot], num),
                blocks.keys.data() + std::min<std::uint64_t>(b_begins_[slot + 1], num));
    }
  });
  return blocks;
}

void ExactRows::compute(const Take& take) {
  compute_columns({.begin = 0, .end = inputs_.b.header().blocks_per_side()}, take);
}

/// Halves the columns until their blocks of B fit.
void ExactRows::compute_columns(Range cols, const Take& take) {
  const auto fits = [&](std::uint64_t need_bytes) { return memory_bytes_ == 0 || need_bytes <= memory_bytes_; };
  const std::uint64_t num_b = count_b(cols);
  if (num_b == 0) return;
  if (cols.end - cols.begin == 1) require(memory_for_b(num_b, m_), "column", cols.begin, inputs_.b, num_b);
  if (!fits(memory_for_b(num_b, m_))) {
    const std::uint64_t middle = cols.begin + (cols.end - cols.begin) / 2;
    compute_columns({.begin = cols.begin, .end = middle}, take);
    compute_columns({.begin = middle, .end = cols.end}, take);
    return;
  }
  const Blocks b = load_b(cols);
  const std::uint64_t num_slots = a_rows_.size();
  for (std::uint64_t begin = 0, end = 0; begin < num_slots; begin = end) {
    for (end = begin + 1; end < num_slots && fits(memory_for_a(a_begins_[end + 1] - a_begins_[begin], m_));) ++end;
    if (a_begins_[end] == a_begins_[begin]) continue;
    compute_rows({.begin = begin, .end = end}, load_a({.begin = begin, .end = end}), cols, b, take);
  }
}

/// On all threads. Rows with a large share of A's blocks are divided by block columns.
void ExactRows::compute_rows(Range slots, const Blocks& a, Range cols, const Blocks& b, const Take& take) {
  const std::uint64_t num_threads =
      memory_bytes_ == 0 ? run_.num_threads
                         : std::clamp<std::uint64_t>(memory_bytes_ / 4 / kLeastSumBytes, 1, run_.num_threads);
  const std::uint64_t sum_bytes = memory_bytes_ == 0 ? kSumBytes : std::min(kSumBytes, memory_bytes_ / 4 / num_threads);
  const std::uint64_t num_parts = std::min(4 * num_threads, cols.end - cols.begin);  // of a long row
  std::vector<std::uint64_t> long_rows;
  for (std::uint64_t slot = slots.begin; num_threads > 1 && slot < slots.end; ++slot) {
    const std::uint64_t num_blocks = a_begins_[slot + 1] - a_begins_[slot];
    const bool fits = memory_bytes_ == 0 || num_blocks * num_threads * sizeof(Scratch::Meeting) <= memory_bytes_ / 8;
    if (fits && num_blocks * num_parts > a.keys.size()) long_rows.push_back(slot);
  }
  std::atomic<std::uint64_t> next_part = 0;
  std::atomic<std::uint64_t> next_slot = slots.begin;
  run_.parallel_for(num_threads, 1, [&](std::uint64_t, std::uint64_t) {
    Scratch scratch(std::max(elements_, sum_bytes * 2 / 3 / sizeof(double)));  // the rest for a list of columns
    for (std::uint64_t x = next_part++; x < long_rows.size() * num_parts; x = next_part++) {
      const std::uint64_t width = cols.end - cols.begin;
      const std::uint64_t part = x % num_parts;
      compute_row(long_rows[x / num_parts], a_begins_[slots.begin], a,
                  {.begin = cols.begin + part * width / num_parts, .end = cols.begin + (part + 1) * width / num_parts},
                  b, scratch, take);
    }
    for (std::uint64_t slot = next_slot++; slot < slots.end; slot = next_slot++) {
      if (std::binary_search(long_rows.begin(), long_rows.end(), slot)) continue;
      compute_row(slot, a_begins_[slots.begin], a, cols, b, scratch, take);
    }
    progress_->add(scratch.num_pairs);
  });
}

/// Values: first_block = number of the first block in `a`.
void ExactRows::compute_row(std::uint64_t slot, std::uint64_t first_block, const Blocks& a, Range cols, const Blocks& b,
                            Scratch& s, const Take& take) {
  run_.check_cancelled();
  s.rows.clear();
  for (std::uint32_t r = 0; r < m_; ++r) {
    if (chosen_[slot * m_ + r] != 0) s.rows.push_back(r);
  }
  s.meetings.clear();
  for (std::uint64_t x = a_begins_[slot] - first_block; x < a_begins_[slot + 1] - first_block; ++x) {
    if (x >= a.keys.size()) break;
    const std::uint32_t row = b_rows_.slot(column(a.keys[x]));
    if (row == RowSlots::kNone) continue;
    const std::uint64_t end = std::min<std::uint64_t>(b_begins_[row + 1], b.keys.size());
    const std::uint64_t begin = std::min<std::uint64_t>(b_begins_[row], end);
    const std::uint64_t* const from = std::lower_bound(b.keys.data() + begin, b.keys.data() + end, cols.begin << 32);
    const auto next = static_cast<std::uint64_t>(from - b.keys.data());
    if (next == end) continue;
    s.meetings.push_back({.a = static_cast<std::uint32_t>(a.keys[x]),
                          .next = static_cast<std::uint32_t>(next),
                          .end = static_cast<std::uint32_t>(end)});
  }
  const std::uint64_t num_rows = s.rows.size();
  const std::uint64_t stride = num_rows * m_;
  const std::uint64_t window = stride == 0 ? 0 : s.sums.size() / stride;
  s.seen.resize((window + 63) / 64);
  s.saturated.resize(s.seen.size());
  s.a.resize(stride);
  static const AddProduct add = fastest();
  while (true) {
    std::uint64_t first_col = cols.end;
    for (const Scratch::Meeting& meeting : s.meetings) {
      if (meeting.next < meeting.end) first_col = std::min<std::uint64_t>(first_col, column(b.keys[meeting.next]));
    }
    if (first_col >= cols.end) break;
    const std::uint64_t end_col = std::min(cols.end, first_col + window);
    for (Scratch::Meeting& meeting : s.meetings) {
      if (meeting.next == meeting.end || column(b.keys[meeting.next]) >= end_col) continue;
      run_.check_cancelled();
      for (std::uint64_t x = 0; x < num_rows; ++x) {
        const std::uint16_t* const row = a.values.data() + meeting.a * elements_ + s.rows[x] * m_;
        std::copy(row, row + m_, s.a.begin() + static_cast<std::ptrdiff_t>(x * m_));
      }
      for (; meeting.next < meeting.end; ++meeting.next) {
        const std::uint64_t key = b.keys[meeting.next];
        if (column(key) >= end_col) break;
        if (meeting.next + kFetchedAhead < meeting.end) {
          __builtin_prefetch(b.values.data() +
                             static_cast<std::uint32_t>(b.keys[meeting.next + kFetchedAhead]) * elements_);
        }
        ++s.num_pairs;
        const std::uint64_t place = column(key) - first_col;
        const std::uint64_t bit = std::uint64_t{1} << place % 64;
        double* const sums = s.sums.data() + place * stride;
        if ((s.seen[place / 64] & bit) == 0) {
          s.seen[place / 64] |= bit;
          s.cols.push_back(column(key));
          std::fill(sums, sums + stride, 0);
        } else if ((s.saturated[place / 64] & bit) != 0) {
          continue;
        }
        add(s.a.data(), num_rows, b.values.data() + static_cast<std::uint32_t>(key) * elements_, m_, sums);
        if (std::all_of(sums, sums + stride, [](double sum) { return sum == kMaxVal; })) s.saturated[place / 64] |= bit;
      }
    }
    take({.slot = slot,
          .cols = s.cols,
          .first_col = static_cast<std::uint32_t>(first_col),
          .rows = s.rows,
          .sums = s.sums.data()});
    for (const std::uint32_t col : s.cols) s.seen[(col - first_col) / 64] = s.saturated[(col - first_col) / 64] = 0;
    s.cols.clear();
  }
  constexpr std::uint64_t kReports = 200;
  if (s.num_pairs < num_pairs_ / kReports) return;
  progress_->add(s.num_pairs);
  s.num_pairs = 0;
}

}  // namespace spmm
