// Reads the blocks of a matrix file in order for a writer of another format.
#include "tools/convert/blocks/walk.hpp"

#include <algorithm>
#include <utility>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

BlockIndex swapped(BlockIndex at) {
  return {.i = at.j, .j = at.i};
}

/// Of m rows or columns that begin at block * m, those below `side`.
std::uint32_t inside(std::uint32_t block, std::uint32_t m, std::uint64_t side) {
  const std::uint64_t begin = std::uint64_t{block} * m;
  return begin >= side ? 0 : static_cast<std::uint32_t>(std::min<std::uint64_t>(m, side - begin));
}

}  // namespace

BlockWalk::BlockWalk(const MatrixFile& matrix, const MatrixCut& cut)
    : matrix_(matrix), cut_(cut), m_(matrix.file.header().m), elements_(std::size_t{m_} * m_) {
  matrix.file.expect_sequential_reads();
  build_index();
}

/// Reads all heads; keeps them only if the order needs them.
void BlockWalk::build_index() {
  const io::InputFile& file = matrix_.file;
  const std::uint32_t nb = file.header().blocks_per_side();
  bool ordered = !cut_.transposed;
  for (std::uint64_t r = 0; r < file.num_records(); ++r) {
    const BlockIndex found = read_index(load(r));
    if (found.i >= nb || found.j >= nb) throw_index_out_of_range(file.name(), r, file.record_bytes(), found, nb);
    if (ordered && r > 0 && !(at_ < found)) {
      ordered = false;
      r = static_cast<std::uint64_t>(-1);  // once more, from the first record on
      continue;
    }
    at_ = found;
    if (!ordered) order_.push_back({.at = cut_.transposed ? swapped(found) : found, .record = r});
  }
  std::sort(order_.begin(), order_.end(), [](const RecordPlace& x, const RecordPlace& y) { return x.at < y.at; });
  for (std::size_t p = 1; p < order_.size(); ++p) {
    if (order_[p].at != order_[p - 1].at) continue;
    const auto [first, second] = std::minmax(order_[p - 1].record, order_[p].record);
    throw_duplicate_block(file.name(), first, second, file.record_bytes(),
                          cut_.transposed ? swapped(order_[p].at) : order_[p].at);
  }
}

/// The record at a place: the record number, or the place in order_ once that is sorted.
const std::byte* BlockWalk::load(std::uint64_t record) {
  const std::uint64_t bytes = matrix_.file.record_bytes();
  if (record < buffer_begin_ || record >= buffer_end_) {
    cli::check_cancelled("spmm-convert");
    const std::uint64_t here = std::min(records_per_read(bytes), matrix_.file.num_records() - record);
    buffer_.resize(here * bytes);
    matrix_.file.read_records(record, here, buffer_.data());
    buffer_begin_ = record;
    buffer_end_ = record + here;
  }
  return buffer_.data() + (record - buffer_begin_) * bytes;
}

bool BlockWalk::next() {
  while (next_ < matrix_.file.num_records()) {
    const std::uint64_t place = next_++;
    if (order_.empty()) {
      const std::byte* const record = load(place);
      const BlockIndex found = read_index(record);
      const std::uint32_t nb = matrix_.file.header().blocks_per_side();
      if (found.i >= nb || found.j >= nb || (place > 0 && !(at_ < found))) throw_changed_content(matrix_.file.name());
      at_ = found;
      decode(record);
    } else {
      if (place % 4096 == 0) cli::check_cancelled("spmm-convert");
      buffer_begin_ = buffer_end_ = 0;
      buffer_.resize(matrix_.file.record_bytes());
      matrix_.file.read_records(order_[place].record, 1, buffer_.data());
      at_ = order_[place].at;
      const BlockIndex found = read_index(buffer_.data());
      if ((cut_.transposed ? swapped(found) : found) != at_) throw_changed_content(matrix_.file.name());
      decode(buffer_.data());
    }
    rows_inside_ = inside(at_.i, m_, cut_.shape.rows);
    columns_inside_ = inside(at_.j, m_, cut_.shape.columns);
    if (rows_inside_ < m_ || columns_inside_ < m_) check_outside();
    if (rows_inside_ > 0 && columns_inside_ > 0) return true;
  }
  matrix_.file.check_unchanged();
  return false;
}

void BlockWalk::decode(const std::byte* record) {
  const std::size_t m = m_;
  if (matrix_.type == ElementType::u32) {
    std::memcpy(elements_.data(), record + kIndexBytes, m * m * sizeof(std::uint32_t));
  } else {
    for (std::size_t e = 0; e < m * m; ++e) elements_[e] = element_at(record, ElementType::u16, e);
  }
  if (!cut_.transposed) return;
  for (std::size_t r = 0; r < m; ++r) {
    for (std::size_t c = 0; c < r; ++c) std::swap(elements_[r * m + c], elements_[c * m + r]);
  }
}

void BlockWalk::check_outside() const {
  for (std::uint32_t r = 0; r < m_; ++r) {
    for (std::uint32_t c = r < rows_inside_ ? columns_inside_ : 0; c < m_; ++c) {
      const std::uint32_t value = elements_[std::size_t{r} * m_ + c];
      if (value == 0) continue;
      throw ShapeError(matrix_.file.name(),
                       text("the element at row ", std::uint64_t{at_.i} * m_ + r, ", column ",
                            std::uint64_t{at_.j} * m_ + c, " (counted from 0", cut_.transposed ? ", transposed" : "",
                            ") is ", value, ", outside the shape ", cut_.shape.rows, "x", cut_.shape.columns),
                       "give a larger --shape");
    }
  }
}

}  // namespace spmm::tools
