// Words for invalid indices, duplicates and changed files.
#include "base/records/errors.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm {

std::string at_offset(const std::string& name, std::uint64_t offset) {
  return text(name, ", byte offset ", offset);
}

std::string record_place(std::uint64_t record, std::uint64_t record_bytes) {
  return text("record ", record, " (byte offset ", kHeaderBytes + record * record_bytes, ")");
}

std::string Source::place(std::uint64_t record) const {
  return record_place(record, input_record_bytes(header().m));
}

std::string at_record(const std::string& name, std::uint64_t record, std::uint64_t record_bytes) {
  return name + ", " + record_place(record, record_bytes);
}

void throw_index_out_of_range(const Source& source, std::uint64_t record, BlockIndex found) {
  const BlockIndex at = source.original_index(found);
  const std::uint32_t side = source.header().blocks_per_side();
  throw FormatError(source.name() + ", " + source.place(record),
                    text("block index (", at.i, ", ", at.j, ") is out of range, expected both from 0 to ",
                         std::int64_t{side} - 1, " (n / m = ", side, ")"),
                    "correct the index or n; block indices count blocks from 0, not elements");
}

void throw_duplicate_block(const Source& source, std::uint64_t first, std::uint64_t second, BlockIndex found) {
  const BlockIndex at = source.original_index(found);
  throw FormatError(source.name() + ", " + source.place(std::max(first, second)),
                    text("block (", at.i, ", ", at.j, ") was stored before in ", source.place(std::min(first, second)),
                         ", expected each block once"),
                    "remove one of the two, or merge them, and lower the number of blocks");
}

void throw_missing_block(std::uint64_t row, std::uint64_t column) {
  throw ShapeError("matrix C", text("it lacks the block in block row ", row, ", block column ", column),
                   "add the block, or leave out what C lacks: is_mask, in Python pattern=True");
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
