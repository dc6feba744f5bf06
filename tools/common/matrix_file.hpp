// Matrix files of either element type, read front to back in pieces, and what is wrong with their blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "base/records/head.hpp"
#include "cli/options.hpp"
#include "io/files/input_file.hpp"
#include "spmm/types.hpp"

namespace spmm::tools {

struct MatrixFile {
  io::InputFile file;
  ElementType type;
};

/// Opens a file with 16-bit or 32-bit elements. The format does not say which: without `type` it is the one that fits
/// the length (16-bit if both do, as in a file without blocks).
/// Errors: InputError, FormatError (speaks of `likely` elements where neither type fits), IoError.
MatrixFile open_matrix(const std::filesystem::path& path, std::optional<ElementType> type, ElementType likely);

/// The option --type u16|u32; nothing if it is not given.
std::optional<ElementType> type_option(const cli::ParsedOptions& parsed);

/// Records of `record` bytes that one read takes: 4 MB, at least one.
std::uint64_t records_per_read(std::uint64_t record);

/// Calls take(number of the first one, records) for pieces of a file, front to back. Memory: 4 MB.
/// Values: program = in the message of an interruption. Errors: IoError, Interrupted, and those of take().
void for_each_piece(const io::InputFile& file, const char* program,
                    const std::function<void(std::uint64_t first, std::span<const std::byte> records)>& take);

/// Errors: FormatError if the block of a record lies outside of the matrix.
void check_index(const io::InputFile& file, std::uint64_t record, BlockIndex at);

/// Calls take(number, block index, record) for each record, front to back. Memory: 4 MB. Errors: FormatError (a block
/// outside of the matrix) and those of for_each_piece().
template <class Take>
void for_each_record(const io::InputFile& file, const char* program, const Take& take) {
  for_each_piece(file, program, [&](std::uint64_t record, std::span<const std::byte> records) {
    for (; !records.empty(); records = records.subspan(file.record_bytes()), ++record) {
      const BlockIndex at = read_index(records.data());
      check_index(file, record, at);
      take(record, at, records.data());
    }
  });
}

/// Errors: FormatError if the block of a record does not come behind that of the record before it.
/// Values: hint = what to do if they are not the same block.
void check_ascends(const io::InputFile& file, std::uint64_t record, BlockIndex before, BlockIndex at, const char* hint);

/// Errors: FormatError if a block lies outside of the matrix, or two records hold the same one. Memory: 8 bytes for
/// each block, or a bit for each place if that is less.
void check_blocks(const io::InputFile& file, const char* program);

/// Errors: ShapeError if two files have another n or m. Values: hint = what to do then.
void check_same_shape(const std::string& first_name, const MatrixHeader& first, const std::string& second_name,
                      const MatrixHeader& second, const char* hint);

/// Element e of a packed record, widened.
inline std::uint32_t element_at(const std::byte* record, ElementType type, std::uint64_t e) {
  std::uint32_t value = 0;
  const std::size_t bytes = type == ElementType::u16 ? 2 : 4;
  std::memcpy(&value, record + kIndexBytes + e * bytes, bytes);  // little-endian
  return value;
}

}  // namespace spmm::tools
