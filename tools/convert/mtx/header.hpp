// The head of a Matrix Market file: banner, comments, sizes.
#pragma once

#include <cstdint>
#include <string>

#include "tools/convert/mtx/text_pieces.hpp"

namespace spmm::tools {

enum class MtxField : std::uint8_t { integer, real, pattern };

struct MtxHeader {
  bool is_array = false;  ///< all elements, column by column; otherwise one line an element
  MtxField field = MtxField::integer;
  bool symmetric = false;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t num_lines = 0;   ///< elements that the file holds
  std::uint64_t data_begin = 0;  ///< byte offset behind the line of the sizes
};

/// Reads banner, comments, however many, and sizes. Values: lines = at the start of a file of so many bytes.
/// Errors: FormatError with the line, IoError.
MtxHeader read_mtx_header(TextPieces& lines, std::uint64_t file_bytes, const std::string& name);

/// Errors: always FormatError.
[[noreturn]] void throw_at_line(const std::string& name, std::uint64_t line, const std::string& problem,
                                const std::string& hint);

}  // namespace spmm::tools
