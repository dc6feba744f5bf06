// A text file in pieces that end with a line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/convert/mtx/byte_input.hpp"

namespace spmm::tools {

/// Memory: kPieceBytes. Errors of next(): FormatError (a line longer than a piece), IoError.
class TextPieces {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

  explicit TextPieces(std::unique_ptr<ByteInput> input, std::size_t piece_bytes = kPieceBytes);

  /// The next lines, all of them complete; the last of the file may lack its end. Empty at the end of the file.
  /// A view that the next call makes invalid.
  std::string_view next();

  /// Offset in the file of the piece that next() has returned.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  std::unique_ptr<ByteInput> input_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  ///< what is left of the last piece: [begin_, end_)
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t next_offset_ = 0;
};

/// Number of the line, from 1, in which the byte at `offset` is. Errors: InputError, IoError.
std::uint64_t line_number(const std::string& path, std::uint64_t offset);

}  // namespace spmm::tools
