// Messages about matrix files, the same words in every reader, sink and backend.
#pragma once

#include <cstdint>
#include <string>

#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// "a.bin, byte offset 8".
std::string at_offset(const std::string& name, std::uint64_t offset);

/// "record 5 (byte offset 212)"; records count from 0.
std::string record_place(std::uint64_t record, std::uint64_t record_bytes);

/// "a.bin, record 5 (byte offset 212)".
std::string at_record(const std::string& name, std::uint64_t record, std::uint64_t record_bytes);

/// Errors: always FormatError; the block of a record lies outside the matrix. Records are named as the source's caller
/// knows them.
[[noreturn]] void throw_index_out_of_range(const Source& source, std::uint64_t record, BlockIndex found);

/// Errors: always FormatError; two records hold the same block.
[[noreturn]] void throw_duplicate_block(const Source& source, std::uint64_t first, std::uint64_t second,
                                        BlockIndex found);

/// Errors: always ShapeError; C's blocks are given, and lack one that has a pair.
[[noreturn]] void throw_missing_block(std::uint64_t row, std::uint64_t column);

/// Errors: always FormatError; a later reading found other records than an earlier one.
[[noreturn]] void throw_changed_content(const std::string& name);

/// Most blocks that the header of a product holds: 2^32 - 1.
std::uint64_t max_output_blocks();

/// Checks how many blocks a product has so far; for every sink and queue. Errors: OutOfMemory.
void check_num_output_blocks(std::uint64_t num_blocks);

}  // namespace spmm
