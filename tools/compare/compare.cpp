#include "tools/compare/compare.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "tools/compare/block_cursor.hpp"

namespace spmm::tools {
namespace {

/// Number of records at the start of both files that are the same bytes.
std::uint64_t count_same_records(const MatrixFile& left, const MatrixFile& right) {
  if (left.type != right.type) return 0;
  const std::uint64_t record = left.file.record_bytes();
  const std::uint64_t num_records = std::min(left.file.num_records(), right.file.num_records());
  const std::uint64_t per_read = records_per_read(record);
  std::vector<std::byte> a(per_read * record);
  std::vector<std::byte> b(per_read * record);
  for (std::uint64_t begin = 0; begin < num_records; begin += per_read) {
    cli::check_cancelled("spmm-compare");
    const std::uint64_t here = std::min(per_read, num_records - begin);
    left.file.read_records(begin, here, a.data());
    right.file.read_records(begin, here, b.data());
    if (std::memcmp(a.data(), b.data(), here * record) == 0) continue;
    const auto end = a.begin() + static_cast<std::ptrdiff_t>(here * record);
    return begin + static_cast<std::uint64_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin()) / record;
  }
  return num_records;
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
  const std::uint64_t same = count_same_records(left, right);
  if (same < left.file.num_records() || same < right.file.num_records()) {
    BlockCursor from_left(left, same, options.any_order);
    BlockCursor from_right(right, same, options.any_order);
    result = Comparer(left, right, options).run(from_left, from_right);
  }
  left.file.check_unchanged();
  right.file.check_unchanged();
  return result;
}

}  // namespace spmm::tools
