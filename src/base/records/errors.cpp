// Words for invalid indices, duplicates and changed files.
#include "base/records/errors.hpp"

#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm {

std::string at_offset(const std::string& name, std::uint64_t offset) {
  return text(name, ", byte offset ", offset);
}

namespace {

std::string record_place(std::uint64_t record, std::uint64_t record_bytes) {
  return text("record ", record, " (byte offset ", kHeaderBytes + record * record_bytes, ")");
}

[[noreturn]] void throw_index_out_of_range_at(const std::string& where, BlockIndex found,
                                              std::uint32_t blocks_per_side) {
  throw FormatError(where,
                    text("block index (", found.i, ", ", found.j, ") is out of range, expected both from 0 to ",
                         std::int64_t{blocks_per_side} - 1, " (n / m = ", blocks_per_side, ")"),
                    "correct the index or n; block indices count blocks from 0, not elements");
}

[[noreturn]] void throw_duplicate_block_at(const std::string& where, const std::string& earlier, BlockIndex found) {
  throw FormatError(
      where, text("block (", found.i, ", ", found.j, ") was stored before in ", earlier, ", expected each block once"),
      "remove one of the two, or merge them, and lower the number of blocks");
}

}  // namespace

std::string at_record(const std::string& name, std::uint64_t record, std::uint64_t record_bytes) {
  return name + ", " + record_place(record, record_bytes);
}

void throw_index_out_of_range(const std::string& name, std::uint64_t record, std::uint64_t record_bytes,
                              BlockIndex found, std::uint32_t blocks_per_side) {
  throw_index_out_of_range_at(at_record(name, record, record_bytes), found, blocks_per_side);
}

void throw_duplicate_block(const std::string& name, std::uint64_t first, std::uint64_t second,
                           std::uint64_t record_bytes, BlockIndex found) {
  const auto [low, high] = std::minmax(first, second);
  throw_duplicate_block_at(at_record(name, high, record_bytes), record_place(low, record_bytes), found);
}

void throw_index_out_of_range(const Source& source, std::uint64_t record, BlockIndex found) {
  throw_index_out_of_range_at(source.name() + ", " + source.place(record), source.original_index(found),
                              source.header().blocks_per_side());
}

void throw_duplicate_block(const Source& source, std::uint64_t first, std::uint64_t second, BlockIndex found) {
  const bool in_order = source.original_record(first) < source.original_record(second);
  throw_duplicate_block_at(source.name() + ", " + source.place(in_order ? second : first),
                           source.place(in_order ? first : second), source.original_index(found));
}

void throw_changed_content(const std::string& name) {
  throw FormatError(name, "the file changed while it was read: a later reading found other blocks than an earlier one",
                    "run again when no other program writes the file");
}

void check_num_output_blocks(std::uint64_t num_blocks) {
  const std::uint64_t most = max_output_blocks();
  if (num_blocks <= most) return;
  throw OutOfMemory("output", text("the product has more than ", most, " non-zero blocks, the most a result holds"),
                    "multiply some block rows at a time (ProductOptions::rows), each into a file of its own, or use "
                    "larger blocks");
}

}  // namespace spmm
