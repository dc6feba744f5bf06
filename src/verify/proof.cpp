// The equations of all rows, and what is wrong with those that fail.
#include "verify/proof.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <stdexcept>

#include "base/records/head.hpp"
#include "base/records/selector.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"
#include "spmm/saturate.hpp"

namespace spmm {
namespace {

using Wide = unsigned __int128;
using WideSums = std::array<Wide, kMaxBlockDim>;

constexpr std::uint64_t kMaxTerms = (kPrime61 - 1) / (std::uint64_t{65535} * 65535);  // of a sum below p
constexpr std::uint64_t kMaxStrayRows = 1000;
constexpr std::size_t kMaxDescribed = 4;  // block rows that are compared for messages, and blocks that they name

/// sums[r] += values[r, c] x[c]. Shapes: values [m, m], unaligned; x [m] below p.
template <class T>
void add_dot_products(const std::byte* values, std::uint32_t m, const std::uint64_t* x, WideSums& sums) {
  for (std::uint32_t r = 0; r < m; ++r) {
    Wide sum = 0;
    for (std::uint32_t c = 0; c < m; ++c, values += sizeof(T)) {
      T value = 0;
      std::memcpy(&value, values, sizeof value);
      sum += static_cast<Wide>(value) * x[c];
    }
    sums[r] += sum;
  }
}

/// The block rows of `num` blocks of a source, chosen at random. Ascending.
AlignedArray<std::uint32_t> chosen_rows(const Source& source, std::uint64_t num, std::uint64_t seed, const Run& run) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::uint64_t> any(0, source.header().num_blocks - 1);
  std::vector<std::byte> record(input_record_bytes(source.header().m));
  AlignedArray<std::uint32_t> rows(num);
  for (std::uint32_t& row : rows) {
    run.check_cancelled();
    source.read(any(random), 1, record.data());
    row = read_index(record.data()).i;
  }
  std::sort(rows.begin(), rows.end());
  rows.truncate(static_cast<std::uint64_t>(std::unique(rows.begin(), rows.end()) - rows.begin()));
  return rows;
}

/// Whether the settings leave rows out.
bool is_sample(std::uint64_t num_blocks, const MatrixHeader& a) {
  return num_blocks != 0 && num_blocks < a.num_blocks;
}

/// Whether all elements are zero, whether one of them is kMaxVal.
struct Scanned {
  bool is_zero;
  bool is_saturated;
};

Scanned scan(const std::byte* values, std::uint64_t count) {
  std::uint32_t any = 0;
  std::uint32_t saturated = 0;
  for (std::uint64_t e = 0; e < count; ++e) {
    std::uint32_t value = 0;
    std::memcpy(&value, values + e * sizeof value, sizeof value);
    any |= value;
    saturated |= value == kMaxVal ? 1 : 0;
  }
  return {.is_zero = any == 0, .is_saturated = saturated != 0};
}

/// The end of the run of records of one block row that begins at record x.
std::uint64_t end_of_run(const std::byte* records, std::uint64_t record, std::uint64_t count, std::uint64_t x) {
  const std::uint32_t row = read_index(records + x * record).i;
  for (++x; x < count && read_index(records + x * record).i == row; ++x) {
  }
  return x;
}

constexpr const char* kReportIt = "nothing was written; please report this as a bug with both inputs";

/// Errors: VerifyError if there is a flaw. Values: header = of C.
void refuse(const std::optional<RecordFlaw>& flaw, const MatrixHeader& header) {
  if (!flaw) return;
  std::string problem = "is all zero";
  if (flaw->kind == RecordFlaw::Kind::out_of_range) problem = text("lies outside 0 to ", header.blocks_per_side() - 1);
  const bool is_twice = flaw->kind == RecordFlaw::Kind::twice;
  if (is_twice || flaw->kind == RecordFlaw::Kind::out_of_order) {
    problem =
        text("follows (", flaw->before.i, ", ", flaw->before.j, is_twice ? "): it is there twice" : "): out of order");
  }
  throw VerifyError("verify", text("result block (", flaw->at.i, ", ", flaw->at.j, ") ", problem), kReportIt);
}

/// Of a record behind another one; nothing if it ascends.
std::optional<RecordFlaw> order_flaw(std::uint64_t record, BlockIndex before, BlockIndex at) {
  if (before < at) return std::nullopt;
  const auto kind = before == at ? RecordFlaw::Kind::twice : RecordFlaw::Kind::out_of_order;
  return RecordFlaw{.kind = kind, .record = record, .at = at, .before = before};
}

}  // namespace

Proof::Proof(const Source& a, const Source& b, const ProofSettings& settings, const Run& run)
    : inputs_{a, b},
      settings_(settings),
      m_(a.header().m),
      x_(settings.key, a.header()),
      is_sample_(is_sample(settings.num_blocks, a.header())),
      a_rows_(is_sample_ ? RowSlots(chosen_rows(a, settings.num_blocks, settings.seed, run))
                         : RowSlots(a, settings.memory_bytes, run)),
      residual_(a_rows_.size() * m_),
      is_exact_(a_rows_.size() * m_),
      kept_(settings.selection.keep == 0 ? 0 : a_rows_.size() * m_) {
  std::fill(residual_.begin(), residual_.end(), 0);
  std::fill(is_exact_.begin(), is_exact_.end(), settings.selection.is_all() ? 0 : 1);
  std::fill(kept_.begin(), kept_.end(), KeptElements{});
  if (settings.selection.is_all() || a_rows_.size() == 0) return;
  // All rows will be computed again: what that needs is refused before the product, not after it.
  const RowSlots b_rows(b, settings.memory_bytes, run);
  ExactRows(inputs_, a_rows_, b_rows, is_exact_.data(), settings.memory_bytes, settings.limit_bytes, run);
}

std::uint64_t Proof::resident_bytes(const MatrixHeader& a, std::uint64_t num_blocks, const Selection& selection) {
  if (is_sample(num_blocks, a)) return num_blocks * chosen_bytes(a.m, selection) + RandomVector::bytes(a);
  return RowSlots::most_slots(a) * a.m * row_bytes(selection) + RowSlots::most_bytes(a) + RandomVector::bytes(a);
}

/// Whether the selection leaves an element of the product, behind the last look().
bool Proof::is_kept(std::uint64_t slot, BlockIndex at, std::uint32_t r, std::uint32_t c, double sum) const {
  const Selection& selection = settings_.selection;
  const std::uint64_t row = std::uint64_t{at.i} * m_ + r;
  const std::uint64_t column = std::uint64_t{at.j} * m_ + c;
  if ((selection.upper_triangle && column < row) || (selection.no_diagonal && column == row)) return false;
  if (sum < selection.at_least) return false;
  if (selection.keep == 0) return true;
  const KeptElements& kept = kept_[slot * m_ + r];
  if (kept.num != selection.keep) return kept.num < selection.keep;  // C has too many: it is not the product
  return selection_rank(static_cast<std::uint32_t>(sum), static_cast<std::uint32_t>(column)) >= kept.last_rank;
}

std::uint64_t Proof::finish_bytes(const MatrixHeader& a, const MatrixHeader& b, std::uint64_t num_blocks) {
  const std::uint64_t a_slots = is_sample(num_blocks, a) ? num_blocks : RowSlots::most_slots(a);
  const std::uint64_t b_slots = RowSlots::most_slots(b);
  return RowSlots::most_bytes(b) + ExactRows::bytes(a_slots, b_slots);
}

std::optional<RecordFlaw> Proof::look(std::span<const std::byte> records) {
  const std::uint64_t record = output_record_bytes(m_);
  const std::uint64_t elements = std::uint64_t{m_} * m_;
  const std::uint32_t nb = inputs_.a.header().blocks_per_side();
  std::optional<RecordFlaw> flaw;
  std::uint32_t row = nb;  // of the records that `sums` and `saturated` are of; nb: none
  std::uint32_t slot = RowSlots::kNone;
  WideSums sums{};
  std::uint64_t saturated = 0;  // a bit for each element row
  std::vector<KeptElements> kept(kept_.size() == 0 ? 0 : m_);
  std::uint64_t num_blocks = 0;
  const auto hand_over = [&] {
    if (slot == RowSlots::kNone) return;
    const std::lock_guard lock(mutex_of(slot));
    for (std::uint32_t r = 0; r < m_; ++r) {
      std::uint64_t& residual = residual_[std::uint64_t{slot} * m_ + r];
      residual = add61(residual, reduce61(sums[r]));
      if ((saturated >> r & 1) != 0) is_exact_[std::uint64_t{slot} * m_ + r] = 1;
      if (kept.empty()) continue;
      KeptElements& all = kept_[std::uint64_t{slot} * m_ + r];
      all = {.last_rank = std::min(all.last_rank, kept[r].last_rank), .num = all.num + kept[r].num};
      kept[r] = {};
    }
  };
  for (std::uint64_t x = 0; x < records.size() / record; ++x) {
    const BlockIndex at = read_index(records.data() + x * record);
    const std::byte* const values = records.data() + x * record + kIndexBytes;
    if (at.i >= nb || at.j >= nb) {
      flaw = {.kind = RecordFlaw::Kind::out_of_range, .record = x, .at = at};
      break;
    }
    if (at.i != row) {
      hand_over();
      row = at.i;
      slot = a_rows_.slot(row);
      std::fill(sums.begin(), sums.begin() + m_, 0);
      saturated = 0;
    }
    if (slot == RowSlots::kNone && is_sample_) continue;
    num_blocks += 1;
    const Scanned scanned = scan(values, elements);
    if (scanned.is_zero && !settings_.allow_zero_blocks) {
      flaw = {.kind = RecordFlaw::Kind::zero_block, .record = x, .at = at};
      break;
    }
    if (slot == RowSlots::kNone) {
      const std::lock_guard lock(stray_mutex_);
      if (!scanned.is_zero && stray_rows_.size() < kMaxStrayRows) stray_rows_.push_back(row);
      continue;
    }
    std::array<std::uint64_t, kMaxBlockDim> vector;
    x_.block(at.j, vector.data());
    add_dot_products<std::uint32_t>(values, m_, vector.data(), sums);
    for (std::uint64_t e = 0; !kept.empty() && e < elements; ++e) {
      std::uint32_t value = 0;
      std::memcpy(&value, values + e * sizeof value, sizeof value);
      if (value == 0) continue;
      KeptElements& row_kept = kept[e / m_];
      const auto column = static_cast<std::uint32_t>(at.j * m_ + e % m_);
      row_kept = {.last_rank = std::min(row_kept.last_rank, selection_rank(value, column)), .num = row_kept.num + 1};
    }
    if (!scanned.is_saturated) continue;
    for (std::uint64_t e = 0; e < elements; ++e) {
      std::uint32_t value = 0;
      std::memcpy(&value, values + e * sizeof value, sizeof value);
      if (value != kMaxVal) continue;
      saturated |= std::uint64_t{1} << e / m_;
      num_saturated_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  hand_over();
  num_blocks_ += num_blocks;
  return flaw;
}

ProofResult Proof::finish(const FindRow& find_row, const Run& run) {
  const RowSlots b_rows(inputs_.b, settings_.memory_bytes, run);
  // Sums of so many terms may reach p, and the equations would take them for smaller ones.
  if (inputs_.a.header().n > kMaxTerms) std::fill(is_exact_.begin(), is_exact_.end(), 1);
  subtract_products(b_rows, run);
  ProofResult result{
      .num_rows = std::min<std::uint64_t>(a_rows_.size(), settings_.rows.end - settings_.rows.first) * m_,
      .num_blocks = num_blocks_,
      .num_saturated = num_saturated_,
      .num_exact = subtract_exact_rows(b_rows, run)};
  const std::vector<std::uint32_t> wrong = wrong_rows(run);
  result.num_wrong = wrong.size();
  if (!wrong.empty()) result.differences = describe(wrong, b_rows, find_row, run);
  return result;
}

/// A (B X) from the residuals of all rows that the equations decide, by ranges of rows of B whose part of B X fits.
void Proof::subtract_products(const RowSlots& b_rows, const Run& run) {
  if (std::find(is_exact_.begin(), is_exact_.end(), 0) == is_exact_.end()) return;
  const std::uint64_t record = input_record_bytes(m_);
  const std::uint64_t most =
      settings_.memory_bytes == 0
          ? b_rows.size()
          : std::max<std::uint64_t>(1, settings_.memory_bytes / 2 / (m_ * sizeof(std::uint64_t)));
  for (std::uint64_t begin = 0, end = 0; begin < b_rows.size(); begin = end) {
    end = std::min(b_rows.size(), begin + most);
    const AlignedArray<std::uint64_t> bx((end - begin) * m_);
    std::fill(bx.begin(), bx.end(), 0);
    for_pieces(inputs_.b, settings_.memory_bytes, run,
               [&](const std::byte* records, std::uint64_t count, std::uint64_t) {
                 std::array<std::uint64_t, kMaxBlockDim> vector;
                 for (std::uint64_t x = 0, next = 0; x < count; x = next) {
                   next = end_of_run(records, record, count, x);
                   const std::uint32_t slot = b_rows.slot(read_index(records + x * record).i);
                   if (slot < begin || slot >= end) continue;
                   WideSums sums{};
                   for (; x < next; ++x) {
                     x_.block(read_index(records + x * record).j, vector.data());
                     add_dot_products<std::uint16_t>(records + x * record + kIndexBytes, m_, vector.data(), sums);
                   }
                   const std::lock_guard lock(mutex_of(slot));
                   for (std::uint32_t r = 0; r < m_; ++r) {
                     std::uint64_t& sum = bx[(slot - begin) * m_ + r];
                     sum = add61(sum, reduce61(sums[r]));
                   }
                 }
               });
    for_pieces(inputs_.a, settings_.memory_bytes, run,
               [&](const std::byte* records, std::uint64_t count, std::uint64_t) {
                 for (std::uint64_t x = 0, next = 0; x < count; x = next) {
                   next = end_of_run(records, record, count, x);
                   const std::uint32_t slot = a_rows_.slot(read_index(records + x * record).i);
                   if (slot == RowSlots::kNone) continue;  // not chosen, or the file has become another one
                   const std::uint8_t* const is_exact = is_exact_.data() + std::uint64_t{slot} * m_;
                   if (std::memchr(is_exact, 0, m_) == nullptr) continue;
                   WideSums sums{};
                   for (; x < next; ++x) {
                     const std::uint32_t met = b_rows.slot(read_index(records + x * record).j);
                     if (met < begin || met >= end) continue;
                     add_dot_products<std::uint16_t>(records + x * record + kIndexBytes, m_,
                                                     bx.data() + (met - begin) * m_, sums);
                   }
                   const std::lock_guard lock(mutex_of(slot));
                   for (std::uint32_t r = 0; r < m_; ++r) {
                     std::uint64_t& residual = residual_[std::uint64_t{slot} * m_ + r];
                     if (is_exact[r] == 0) residual = subtract61(residual, reduce61(sums[r]));
                   }
                 }
               });
  }
}

/// R X from the residuals of all other rows. Returns the number of their block rows.
std::uint64_t Proof::subtract_exact_rows(const RowSlots& b_rows, const Run& run) {
  if (std::find(is_exact_.begin(), is_exact_.end(), 1) == is_exact_.end()) return 0;
  ExactRows exact(inputs_, a_rows_, b_rows, is_exact_.data(), settings_.memory_bytes, settings_.limit_bytes, run);
  if (settings_.on_notice && exact.seconds() > 1) {
    const bool is_all = settings_.selection.is_all();
    settings_.on_notice(text(exact.num_block_rows(), " block rows ",
                             is_all ? "hold saturated elements: they are" : "lack what was dropped: all are",
                             " computed again, in about ", static_cast<std::uint64_t>(exact.seconds() + 0.5),
                             " s at most"));
  }
  exact.compute([&](const ExactSums& found) {
    std::array<std::uint64_t, kMaxBlockDim> vector;
    WideSums totals{};
    for (const std::uint32_t col : found.cols) {
      x_.block(col, vector.data());
      const double* sum = found.sums + (col - found.first_col) * found.rows.size() * m_;
      for (std::size_t x = 0; x < found.rows.size(); ++x) {
        for (std::uint32_t c = 0; c < m_; ++c, ++sum) {
          if (!is_kept(found.slot, {.i = a_rows_.row(found.slot), .j = col}, found.rows[x], c, *sum)) continue;
          totals[x] += static_cast<Wide>(static_cast<std::uint32_t>(*sum)) * vector[c];
        }
      }
    }
    const std::lock_guard lock(mutex_of(found.slot));
    for (std::size_t x = 0; x < found.rows.size(); ++x) {
      std::uint64_t& residual = residual_[found.slot * m_ + found.rows[x]];
      residual = subtract61(residual, reduce61(totals[x]));
    }
  });
  return exact.num_block_rows();
}

/// Ascending.
std::vector<std::uint32_t> Proof::wrong_rows(const Run& run) const {
  std::vector<std::uint32_t> wrong = stray_rows_;
  for_ranges(run, a_rows_.size(), [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t slot = begin; slot < end; ++slot) {
      const std::uint64_t* const residual = residual_.data() + slot * m_;
      if (std::any_of(residual, residual + m_, [](std::uint64_t x) { return x != 0; })) {
        wrong.push_back(a_rows_.row(slot));
      }
    }
  });
  std::sort(wrong.begin(), wrong.end());
  wrong.erase(std::unique(wrong.begin(), wrong.end()), wrong.end());
  return wrong;
}

/// What differs in the first few of these block rows, which are computed again. Memory: their blocks in C.
/// Shapes: wrong ascending, not empty.
std::string Proof::describe(std::span<const std::uint32_t> wrong, const RowSlots& b_rows, const FindRow& find_row,
                            const Run& run) {
  const std::span<const std::uint32_t> compared = wrong.first(std::min(wrong.size(), kMaxDescribed));
  std::map<BlockIndex, std::vector<std::uint32_t>> found;  // what is left to compare
  std::string clauses;
  for (const std::uint32_t row : compared) {
    const bool is_found = find_row && find_row(row, [&](BlockIndex at, const std::byte* values) {
                            std::vector<std::uint32_t>& block = found[at];
                            block.resize(std::size_t{m_} * m_);
                            std::memcpy(block.data(), values, block.size() * sizeof(std::uint32_t));
                          });
    if (is_found) continue;
    const std::uint32_t slot = a_rows_.slot(row);
    clauses += text(clauses.empty() ? "" : "; ", "block row ", row);
    if (slot == RowSlots::kNone) clauses += " must be zero: A stores no block there";
    std::string elements;
    for (std::uint32_t r = 0; slot != RowSlots::kNone && r < m_; ++r) {
      if (residual_[std::uint64_t{slot} * m_ + r] == 0) continue;
      elements += text(elements.empty() ? ": element rows " : ", ", std::uint64_t{row} * m_ + r);
    }
    if (slot != RowSlots::kNone) clauses += elements + " differ";
  }
  const std::string rows = text(wrong.size(), wrong.size() == 1 ? " block row is" : " block rows are", " wrong");
  if (!clauses.empty()) return rows + "; " + clauses;

  std::fill(is_exact_.begin(), is_exact_.end(), 0);
  for (const std::uint32_t row : compared) {
    const std::uint32_t slot = a_rows_.slot(row);
    if (slot != RowSlots::kNone) std::fill_n(is_exact_.data() + std::uint64_t{slot} * m_, m_, 1);
  }
  std::mutex mutex;
  std::uint64_t num_blocks = 0;
  std::map<BlockIndex, std::string> differences;  // the first ones
  const auto compare = [&](BlockIndex at, const double* expected) {
    const auto block = found.find(at);
    const bool is_there = block != found.end();
    std::uint64_t num = 0;
    std::uint64_t first = 0;
    for (std::uint64_t e = std::uint64_t{m_} * m_; e-- > 0;) {
      if ((is_there ? block->second[e] : 0) == static_cast<std::uint32_t>(expected[e])) continue;
      ++num;
      first = e;
    }
    if (num != 0) {
      ++num_blocks;
      differences[at] =
          text("block (", at.i, ", ", at.j, is_there ? "): " : ") is absent: ", num, " of ", std::uint64_t{m_} * m_,
               " elements differ, element (", first / m_, ", ", first % m_, ") expected ",
               static_cast<std::uint32_t>(expected[first]), ", found ", is_there ? block->second[first] : 0);
      if (differences.size() > kMaxDescribed) differences.erase(std::prev(differences.end()));
    }
    if (is_there) found.erase(block);
  };
  ExactRows(inputs_, a_rows_, b_rows, is_exact_.data(), settings_.memory_bytes, settings_.limit_bytes, run)
      .compute([&](const ExactSums& exact) {
        const std::lock_guard lock(mutex);
        std::vector<double> block(std::size_t{m_} * m_);
        for (const std::uint32_t col : exact.cols) {
          const BlockIndex at{.i = a_rows_.row(exact.slot), .j = col};
          const double* const sums = exact.sums + (col - exact.first_col) * block.size();
          for (std::uint32_t e = 0; e < block.size(); ++e) {
            block[e] = is_kept(exact.slot, at, e / m_, e % m_, sums[e]) ? sums[e] : 0;
          }
          compare(at, block.data());
        }
      });
  const std::vector<double> zeros(std::size_t{m_} * m_, 0);
  while (!found.empty()) compare(found.begin()->first, zeros.data());
  if (num_blocks == 0) {
    throw std::logic_error(text("ProductOptions::verify_full: block row ", compared.front(),
                                " fails its equations, but is right when it is computed again: the memory or the "
                                "processor may be faulty, or an input was changed; please run again"));
  }
  for (const auto& [at, difference] : differences) clauses += "; " + difference;
  return text(rows, ", ", num_blocks, " blocks of ", compared.size(), " of them", clauses);
}

std::optional<RecordFlaw> RecordOrder::add(std::uint64_t first, std::span<const std::byte> records) {
  const std::uint64_t count = records.size() / record_bytes_;
  if (count == 0) return std::nullopt;
  BlockIndex before = read_index(records.data());
  for (std::uint64_t x = 1; x < count; ++x) {
    const BlockIndex at = read_index(records.data() + x * record_bytes_);
    if (auto flaw = order_flaw(first + x, before, at)) return flaw;
    before = at;
  }
  const std::lock_guard lock(mutex_);
  pieces_.push_back({.begin = first, .end = first + count, .first = read_index(records.data()), .last = before});
  return std::nullopt;
}

std::optional<RecordFlaw> RecordOrder::close() {
  std::sort(pieces_.begin(), pieces_.end(), [](const Piece& x, const Piece& y) { return x.begin < y.begin; });
  for (std::size_t x = 1; x < pieces_.size(); ++x) {
    if (auto flaw = order_flaw(pieces_[x].begin, pieces_[x - 1].last, pieces_[x].first)) return flaw;
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
                      const auto timing = run_.clock.scope(Stage::verify);
                      const auto piece = records.subspan(begin * record_bytes_, (end - begin) * record_bytes_);
                      refuse(order_.add(first_block + begin, piece), header_);
                      refuse(proof_.look(piece), header_);
                    });
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
  refuse(order_.close(), header_);
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
