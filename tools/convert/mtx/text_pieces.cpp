// Cuts a text file into chunks that end with a line.
#include "tools/convert/mtx/text_pieces.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {

TextPieces::TextPieces(std::unique_ptr<ByteInput> input, std::size_t piece_bytes)
    : input_(std::move(input)), buffer_(std::min<std::uint64_t>(piece_bytes, input_->size() + 1)) {}

std::string_view TextPieces::next() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  offset_ = next_offset_;
  const std::size_t wanted = buffer_.size() - end_;
  const std::size_t got = input_->read(std::as_writable_bytes(std::span(buffer_).subspan(end_)));
  end_ += got;
  const std::string_view all(buffer_.data(), end_);
  if (got < wanted) {
    begin_ = end_;
  } else {
    begin_ = all.rfind('\n') + 1;  // 0 if there is none
    if (begin_ == 0) {
      throw FormatError(at_offset(input_->name(), offset_),
                        text("a line of more than ", all.size(), " characters, expected short lines of text"),
                        "check that the file is a Matrix Market file, and create it again");
    }
  }
  next_offset_ = offset_ + begin_;
  return all.substr(0, begin_);
}

std::uint64_t line_number(const std::string& path, std::uint64_t offset) {
  const auto input = open_byte_input(path);
  std::vector<char> buffer(std::size_t{1} << 20);
  std::uint64_t line = 1;
  while (offset > 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(offset, buffer.size()));
    const std::size_t got = input->read(std::as_writable_bytes(std::span(buffer).first(wanted)));
    line +=
        static_cast<std::uint64_t>(std::count(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(got), '\n'));
    if (got < wanted) break;
    offset -= got;
  }
  return line;
}

}  // namespace spmm::tools
