// Stored block rows by a bit each or by numbers, whichever takes less memory.
#include "verify/row_slots.hpp"

#include "base/records/head.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kFewRows = 1u << 12;

/// Whether every row gets a number: an array of all of them costs little compared with the records.
bool numbers_all(const MatrixHeader& header) {
  constexpr std::uint64_t kRowsPerBlock = 2;
  return header.blocks_per_side() <= std::max(kFewRows, kRowsPerBlock * header.num_blocks);
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

}  // namespace spmm
