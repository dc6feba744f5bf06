// Chooses the side of blocks, reads and writes blocks.
#include "tools/convert/blocks.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/records/head.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMaxBlocks = UINT32_MAX;

/// Calls take(block row, begin, end) for the elements of each block row.
template <class Take>
void for_each_block_row(const std::vector<MatrixEntry>& entries, std::uint32_t m, const Take& take) {
  for (std::size_t begin = 0, end = 0; begin < entries.size(); begin = end) {
    const std::uint32_t row = entries[begin].row / m;
    while (end < entries.size() && entries[end].row / m == row) ++end;
    take(row, begin, end);
  }
}

}  // namespace

std::uint64_t count_blocks(const std::vector<MatrixEntry>& entries, std::uint32_t m) {
  if (m == 1) return entries.size();
  std::uint64_t blocks = 0;
  std::vector<std::uint32_t> columns;
  for_each_block_row(entries, m, [&](std::uint32_t, std::size_t begin, std::size_t end) {
    columns.clear();
    for (; begin < end; ++begin) columns.push_back(entries[begin].column / m);
    std::sort(columns.begin(), columns.end());
    blocks += static_cast<std::uint64_t>(std::unique(columns.begin(), columns.end()) - columns.begin());
  });
  return blocks;
}

std::uint32_t choose_block_side(const std::vector<MatrixEntry>& entries, std::uint32_t n) {
  std::uint32_t best = 1;
  std::uint64_t least_bytes = UINT64_MAX;
  for (const std::uint32_t m : kTriedSides) {
    cli::check_cancelled("spmm-convert");
    if (n % m != 0) continue;
    const std::uint64_t blocks = count_blocks(entries, m);
    const std::uint64_t bytes = blocks * input_record_bytes(m);
    if (blocks > kMaxBlocks || bytes > least_bytes) continue;
    least_bytes = bytes;
    best = m;
  }
  return best;
}

std::byte* BufferedOutput::add(std::size_t bytes) {
  constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
  if (buffer_.capacity() == 0) buffer_.reserve(kBufferBytes);
  if (buffer_.size() + bytes > buffer_.capacity()) flush();
  buffer_.resize(buffer_.size() + bytes);
  return buffer_.data() + buffer_.size() - bytes;
}

void BufferedOutput::flush() {
  cli::check_cancelled("spmm-convert");
  file_.write_at(offset_, buffer_);
  offset_ += buffer_.size();
  buffer_.clear();
}

std::byte* BlockOutput::add(BlockIndex at) {
  std::byte* const record = out_.add(input_record_bytes(header_.m));
  write_index(record, at);
  ++num_blocks_;
  return record + kIndexBytes;
}

MatrixHeader BlockOutput::publish() {
  if (num_blocks_ > kMaxBlocks) {
    throw OutOfMemory(
        out_.file().name(),
        text("the matrix has ", num_blocks_, " blocks of side ", header_.m, ", a file at most ", kMaxBlocks),
        "store it with larger blocks");
  }
  header_.num_blocks = static_cast<std::uint32_t>(num_blocks_);
  out_.flush();
  out_.file().finish(header_);
  out_.file().publish();
  return header_;
}

MatrixHeader write_blocks(const std::filesystem::path& path, const std::vector<MatrixEntry>& entries, std::uint32_t n,
                          std::uint32_t m) {
  BlockOutput out(path, n, m);
  std::vector<std::uint64_t> packed;  // block column, place in the block, value: sorted, it groups the blocks
  for_each_block_row(entries, m, [&](std::uint32_t row, std::size_t begin, std::size_t end) {
    packed.clear();
    for (; begin < end; ++begin) {
      const MatrixEntry& entry = entries[begin];
      const std::uint64_t place = std::uint64_t{entry.row % m} * m + entry.column % m;  // below 64 * 64
      packed.push_back(std::uint64_t{entry.column / m} << 32 | place << 16 | static_cast<std::uint16_t>(entry.value));
    }
    std::sort(packed.begin(), packed.end());
    std::byte* elements = nullptr;
    std::uint64_t before = UINT64_MAX;
    for (const std::uint64_t element : packed) {
      const std::uint64_t column = element >> 32;
      if (column != before) elements = out.add({.i = row, .j = static_cast<std::uint32_t>(column)});
      before = column;
      const auto value = static_cast<std::uint16_t>(element);
      std::memcpy(elements + (element >> 16 & 0xFFFF) * sizeof value, &value, sizeof value);
    }
  });
  return out.publish();
}

void for_each_block(const MatrixFile& matrix,
                    const std::function<void(BlockIndex at, const std::vector<std::uint32_t>& elements)>& take) {
  const io::InputFile& file = matrix.file;
  const std::size_t m = file.header().m;
  std::vector<std::uint32_t> elements(m * m);
  BlockIndex before;
  bool ascends = true;
  for_each_piece(file, "spmm-convert", [&](std::uint64_t first, std::span<const std::byte> records) {
    for (std::uint64_t r = 0; r < records.size() / file.record_bytes(); ++r) {
      const std::byte* const record = &records[r * file.record_bytes()];
      const BlockIndex at = read_index(record);
      check_index(file, first + r, at);
      ascends = ascends && (first + r == 0 || before < at);
      before = at;
      for (std::size_t e = 0; e < m * m; ++e) {
        elements[e] = element_at(record, matrix.type, e);
      }
      take(at, elements);
    }
  });
  if (!ascends) check_blocks(file, "spmm-convert");
  file.check_unchanged();
}

}  // namespace spmm::tools
