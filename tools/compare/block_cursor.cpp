// Reads the blocks of a matrix file in the order of (i, j).
#include "tools/compare/block_cursor.hpp"

#include <algorithm>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

/// Calls visit(record number, block index) for records [first, end); stops where it returns false.
template <class Visit>
void scan_indices(const io::InputFile& file, std::uint64_t first, std::uint64_t end, std::vector<std::byte>& buffer,
                  const Visit& visit) {
  const std::uint64_t record = file.record_bytes();
  const std::uint64_t per_read = records_per_read(record);
  buffer.resize(per_read * record);
  for (std::uint64_t begin = first; begin < end; begin += per_read) {
    cli::check_cancelled("spmm-compare");
    const std::uint64_t here = std::min(per_read, end - begin);
    file.read_records(begin, here, buffer.data());
    for (std::uint64_t r = 0; r < here; ++r) {
      if (!visit(begin + r, read_index(buffer.data() + r * record))) return;
    }
  }
}

}  // namespace

BlockCursor::BlockCursor(const MatrixFile& matrix, std::uint64_t first_record, bool any_order)
    : matrix_(matrix), first_(first_record), end_(matrix.file.num_records()), next_(first_record) {
  if (any_order && !is_ordered()) build_index();
  load();
}

bool BlockCursor::is_ordered() {
  bool ordered = true;
  BlockIndex before;
  scan_indices(matrix_.file, first_, end_, buffer_, [&](std::uint64_t record, BlockIndex here) {
    ordered = record == first_ || before < here;
    before = here;
    return ordered;
  });
  return ordered;
}

void BlockCursor::build_index() {
  order_.reserve(end_ - first_);
  scan_indices(matrix_.file, first_, end_, buffer_, [&](std::uint64_t record, BlockIndex here) {
    order_.push_back({.at = here, .record = record});
    return true;
  });
  std::sort(order_.begin(), order_.end(), [](const Entry& x, const Entry& y) { return x.at < y.at; });
  for (std::size_t e = 1; e < order_.size(); ++e) {
    if (order_[e].at != order_[e - 1].at) continue;
    throw_duplicate_block(matrix_.file.name(), order_[e - 1].record, order_[e].record, matrix_.file.record_bytes(),
                          order_[e].at);
  }
}

void BlockCursor::advance() {
  const BlockIndex before = index();
  ++next_;
  load();
  if (!done() && order_.empty()) check_step(before, index(), next_);
}

/// Makes the block at next_ the current one.
void BlockCursor::load() {
  if (done()) return;
  const std::uint64_t record = record_number(next_);
  if (order_.empty()) {
    load_in_order();
  } else {
    if (next_ % 4096 == 0) cli::check_cancelled("spmm-compare");
    buffer_.resize(matrix_.file.record_bytes());
    matrix_.file.read_records(record, 1, buffer_.data());
    current_ = buffer_.data();
  }
  const std::uint32_t nb = matrix_.file.header().blocks_per_side();
  const BlockIndex here = index();
  if (here.i >= nb || here.j >= nb) {
    throw_index_out_of_range(matrix_.file.name(), record, matrix_.file.record_bytes(), here, nb);
  }
}

void BlockCursor::load_in_order() {
  const std::uint64_t record = matrix_.file.record_bytes();
  if (next_ < buffer_begin_ || next_ >= buffer_end_) {
    cli::check_cancelled("spmm-compare");
    const std::uint64_t here = std::min(records_per_read(record), end_ - next_);
    buffer_.resize(here * record);
    matrix_.file.read_records(next_, here, buffer_.data());
    buffer_begin_ = next_;
    buffer_end_ = next_ + here;
  }
  current_ = buffer_.data() + (next_ - buffer_begin_) * record;
}

void BlockCursor::check_step(BlockIndex before, BlockIndex here, std::uint64_t record) const {
  if (before < here) return;
  const std::string& name = matrix_.file.name();
  const std::uint64_t bytes = matrix_.file.record_bytes();
  if (before == here) throw_duplicate_block(name, record - 1, record, bytes, here);
  throw FormatError(at_record(name, record, bytes),
                    text("block (", here.i, ", ", here.j, ") follows (", before.i, ", ", before.j,
                         "), expected blocks in the order of (i, j)"),
                    "compare with --any-order");
}

}  // namespace spmm::tools
