// Compares two matrix files element by element.
#include "tools/compare/compare.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/records/saturated_count.hpp"
#include "tools/compare/block_cursor.hpp"

namespace spmm::tools {
namespace {

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
