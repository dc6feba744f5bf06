#include "base/record_errors.hpp"

#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm {

std::string at_offset(const std::string& name, std::uint64_t offset) {
  return text(name, ", byte offset ", offset);
}

std::string at_record(const std::string& name, std::uint64_t record, std::uint64_t record_bytes) {
  return text(name, ", record ", record, " (byte offset ", kHeaderBytes + record * record_bytes, ")");
}

void throw_index_out_of_range(const std::string& name, std::uint64_t record, std::uint64_t record_bytes,
                              BlockIndex found, std::uint32_t blocks_per_side) {
  throw FormatError(at_record(name, record, record_bytes),
                    text("block index (", found.i, ", ", found.j, ") is out of range, expected both from 0 to ",
                         std::int64_t{blocks_per_side} - 1, " (n / m = ", blocks_per_side, ")"),
                    "correct the record or n in the header; block indices count blocks from 0, not elements");
}

void throw_duplicate_block(const std::string& name, std::uint64_t first, std::uint64_t second,
                           std::uint64_t record_bytes, BlockIndex found) {
  const auto [low, high] = std::minmax(first, second);
  throw FormatError(at_record(name, high, record_bytes),
                    text("block (", found.i, ", ", found.j, ") was stored before in record ", low, " (byte offset ",
                         kHeaderBytes + low * record_bytes, "), expected each block once"),
                    "remove one of the two records, or merge them, and lower the block count in the header");
}

void throw_changed_content(const std::string& name) {
  throw FormatError(name, "the file changed while it was read: a later reading found other blocks than an earlier one",
                    "run again when no other program writes the file");
}

void throw_index_out_of_range(const Source& source, std::uint64_t record, BlockIndex found) {
  throw_index_out_of_range(source.name(), source.original_record(record), input_record_bytes(source.header().m),
                           source.original_index(found), source.header().blocks_per_side());
}

void throw_duplicate_block(const Source& source, std::uint64_t first, std::uint64_t second, BlockIndex found) {
  throw_duplicate_block(source.name(), source.original_record(first), source.original_record(second),
                        input_record_bytes(source.header().m), source.original_index(found));
}

std::atomic<std::uint64_t> max_output_blocks{std::numeric_limits<std::uint32_t>::max()};

void check_num_output_blocks(std::uint64_t num_blocks) {
  const std::uint64_t most = max_output_blocks.load(std::memory_order_relaxed);
  if (num_blocks <= most) return;
  throw OutOfMemory("output", text("the product has more than ", most, " non-zero blocks, the most a file holds"),
                    "write the result in parts (--parts), multiply parts of the matrices, or use larger blocks");
}

void check_num_output_blocks(const Sink& sink, std::uint64_t num_blocks) {
  if (sink.max_blocks() <= std::numeric_limits<std::uint32_t>::max()) check_num_output_blocks(num_blocks);
}

}  // namespace spmm
