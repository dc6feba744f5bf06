// Compares two matrix files element by element.
#include "tools/compare/compare.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/records/saturated_count.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

/// One block after the other, by (i, j), from a starting record on. A file whose records lie in that order is read
/// front to back; for another one an index of its blocks is sorted first, if that is allowed. Memory: 4 MB, and for an
/// index 16 bytes for each block. Errors: FormatError (index out of range, a block twice, records out of order where no
/// index is allowed), IoError, Interrupted.
class BlockCursor {
 public:
  BlockCursor(const MatrixFile& matrix, std::uint64_t first_record, bool any_order)
      : matrix_(matrix), first_(first_record), next_(first_record) {
    if (any_order) build_index();
    load();
  }

  [[nodiscard]] bool done() const { return next_ == matrix_.file.num_records(); }
  [[nodiscard]] BlockIndex index() const { return read_index(record()); }

  /// The packed record of the block. Shapes: [record_bytes].
  [[nodiscard]] const std::byte* record() const { return current_; }

  void advance() {
    const BlockIndex before = index();
    ++next_;
    load();
    if (done() || !order_.empty() || before < index()) return;
    const std::string& name = matrix_.file.name();
    const std::uint64_t bytes = matrix_.file.record_bytes();
    if (before == index()) throw_duplicate_block(name, next_ - 1, next_, bytes, before);
    throw FormatError(at_record(name, next_, bytes),
                      text("block (", index().i, ", ", index().j, ") follows (", before.i, ", ", before.j,
                           "), expected blocks in the order of (i, j)"),
                      "compare with --any-order");
  }

 private:
  /// A record and the block that it holds.
  struct Entry {
    BlockIndex at;
    std::uint64_t record;
  };

  /// Sorts the indices of a file whose records do not lie in their order.
  void build_index() {
    for (const bool keeps : {false, true}) {
      bool is_ordered = true;
      BlockIndex before{};
      for (next_ = first_; !done() && (keeps || is_ordered); ++next_) {
        read_ahead();
        is_ordered = is_ordered && (next_ == first_ || before < index());
        before = index();
        if (keeps) order_.push_back({.at = before, .record = next_});
      }
      next_ = first_;
      if (is_ordered) return;
    }
    std::sort(order_.begin(), order_.end(), [](const Entry& x, const Entry& y) { return x.at < y.at; });
    for (std::size_t e = 1; e < order_.size(); ++e) {
      if (order_[e].at != order_[e - 1].at) continue;
      throw_duplicate_block(matrix_.file.name(), order_[e - 1].record, order_[e].record, matrix_.file.record_bytes(),
                            order_[e].at);
    }
  }

  /// Makes record next_ of the file the current one, which it reads together with those behind it.
  void read_ahead() {
    const std::uint64_t record = matrix_.file.record_bytes();
    if (next_ < buffer_begin_ || next_ >= buffer_end_) {
      cli::check_cancelled("spmm-compare");
      buffer_begin_ = next_;
      buffer_end_ = std::min(next_ + records_per_read(record), matrix_.file.num_records());
      buffer_.resize((buffer_end_ - buffer_begin_) * record);
      matrix_.file.read_records(buffer_begin_, buffer_end_ - buffer_begin_, buffer_.data());
    }
    current_ = buffer_.data() + (next_ - buffer_begin_) * record;
  }

  /// Makes the block at place next_ the current one.
  void load() {
    if (done()) return;
    std::uint64_t number = next_;
    if (order_.empty()) {
      read_ahead();
    } else {
      if (next_ % 4096 == 0) cli::check_cancelled("spmm-compare");
      number = order_[next_ - first_].record;
      buffer_.resize(matrix_.file.record_bytes());
      matrix_.file.read_records(number, 1, buffer_.data());
      current_ = buffer_.data();
    }
    const std::uint32_t nb = matrix_.file.header().blocks_per_side();
    if (index().i < nb && index().j < nb) return;
    throw_index_out_of_range(matrix_.file.name(), number, matrix_.file.record_bytes(), index(), nb);
  }

  const MatrixFile& matrix_;
  std::uint64_t first_;
  std::uint64_t next_;             ///< place of the current block: the record number, or first_ + place in order_
  std::vector<Entry> order_{};     ///< empty: the records are in order
  std::vector<std::byte> buffer_;  ///< records [buffer_begin_, buffer_end_) of the file, or one record
  std::uint64_t buffer_begin_ = 0;
  std::uint64_t buffer_end_ = 0;
  const std::byte* current_ = nullptr;
};

/// Records at the start of both files that are the same bytes.
struct SameRecords {
  std::uint64_t count = 0;
  std::uint64_t saturated = 0;  ///< their elements at the limit
};

SameRecords find_same_records(const MatrixFile& left, const MatrixFile& right) {
  SameRecords same;
  if (left.type != right.type) return same;
  const std::uint64_t record = left.file.record_bytes();
  const std::uint64_t num_records = std::min(left.file.num_records(), right.file.num_records());
  const std::uint64_t per_read = records_per_read(record);
  std::vector<std::byte> a(per_read * record);
  std::vector<std::byte> b(per_read * record);
  while (same.count < num_records) {
    cli::check_cancelled("spmm-compare");
    const std::uint64_t here = std::min(per_read, num_records - same.count);
    left.file.read_records(same.count, here, a.data());
    right.file.read_records(same.count, here, b.data());
    std::uint64_t equal = here;
    if (std::memcmp(a.data(), b.data(), here * record) != 0) {
      const auto end = a.begin() + static_cast<std::ptrdiff_t>(here * record);
      equal = static_cast<std::uint64_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin()) / record;
    }
    same.count += equal;
    if (left.type == ElementType::u32) same.saturated += count_saturated(std::span(a).first(equal * record));
    if (equal < here) break;
  }
  return same;
}

/// Elements at the limit of the record that a walk is at.
std::uint64_t saturated_of(const BlockCursor& cursor, const MatrixFile& matrix) {
  if (matrix.type != ElementType::u32) return 0;
  return count_saturated({cursor.record(), matrix.file.record_bytes()});
}

/// Takes two walks over blocks in order apart into blocks of both, of the left and of the right.
class Comparer {
 public:
  Comparer(const MatrixFile& left, const MatrixFile& right, const CompareOptions& options)
      : left_(left), right_(right), options_(options), m_(left.file.header().m), num_elements_(m_ * m_) {}

  Comparison run(BlockCursor& left, BlockCursor& right) {
    while (!left.done() || !right.done()) {
      if (right.done() || (!left.done() && left.index() < right.index())) {
        one_side(left, left_, true);
        left.advance();
      } else if (left.done() || right.index() < left.index()) {
        one_side(right, right_, false);
        right.advance();
      } else {
        both(left, right);
        left.advance();
        right.advance();
      }
    }
    return result_;
  }

 private:
  void both(const BlockCursor& left, const BlockCursor& right) {
    result_.saturated_left += saturated_of(left, left_);
    result_.saturated_right += saturated_of(right, right_);
    const bool same_type = left_.type == right_.type;
    if (same_type && std::memcmp(left.record(), right.record(), left_.file.record_bytes()) == 0) return;
    bool differs = false;
    for (std::uint64_t e = 0; e < num_elements_; ++e) {
      const std::uint32_t x = element_at(left.record(), left_.type, e);
      const std::uint32_t y = element_at(right.record(), right_.type, e);
      if (x == y) continue;
      differs = true;
      report(left.index(), e, x, y);
    }
    result_.blocks += differs ? 1 : 0;
  }

  void one_side(const BlockCursor& cursor, const MatrixFile& matrix, bool is_left) {
    (is_left ? result_.saturated_left : result_.saturated_right) += saturated_of(cursor, matrix);
    const std::span values(cursor.record() + kIndexBytes, matrix.file.record_bytes() - kIndexBytes);
    const bool zeros = all_zero(values);
    if (zeros && options_.ignore_zero_blocks) return;
    (is_left ? result_.only_in_left : result_.only_in_right) += 1;
    result_.only_zeros += zeros ? 1 : 0;
    for (std::uint64_t e = 0; e < num_elements_ && !zeros; ++e) {
      const std::uint32_t value = element_at(cursor.record(), matrix.type, e);
      if (value == 0) continue;
      if (is_left) {
        report(cursor.index(), e, value, std::nullopt);
      } else {
        report(cursor.index(), e, std::nullopt, value);
      }
    }
  }

  void report(BlockIndex at, std::uint64_t e, std::optional<std::uint32_t> x, std::optional<std::uint32_t> y) {
    ++result_.elements;
    if (options_.on_difference) {
      options_.on_difference({.row = at.i * m_ + e / m_, .col = at.j * m_ + e % m_, .left = x, .right = y});
    }
  }

  const MatrixFile& left_;
  const MatrixFile& right_;
  const CompareOptions& options_;
  std::uint64_t m_;
  std::uint64_t num_elements_;
  Comparison result_;
};

}  // namespace

Comparison compare_files(const MatrixFile& left, const MatrixFile& right, const CompareOptions& options) {
  Comparison result;
  // What the files have in common at the start needs no order: neither file has those blocks again.
  const SameRecords same = find_same_records(left, right);
  if (same.count < left.file.num_records() || same.count < right.file.num_records()) {
    BlockCursor from_left(left, same.count, options.any_order);
    BlockCursor from_right(right, same.count, options.any_order);
    result = Comparer(left, right, options).run(from_left, from_right);
  }
  result.saturated_left += same.saturated;
  result.saturated_right += same.saturated;
  left.file.check_unchanged();
  right.file.check_unchanged();
  return result;
}

}  // namespace spmm::tools
