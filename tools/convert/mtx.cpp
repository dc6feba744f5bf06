// Reads and writes Matrix Market files.
#include "tools/convert/mtx.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>
#include <system_error>
#include <vector>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "io/files/input_file.hpp"
#include "io/system/retried.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMaxSide = UINT32_MAX;
constexpr const char* kCutHint = "create or copy the file again: it is cut off, or the line of the sizes is wrong";

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool is_digit(char c) {
  return static_cast<unsigned char>(c - '0') < 10;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size();) {
    std::size_t end = at;
    while (end < line.size() && !is_blank(line[end])) ++end;
    if (end > at) words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

[[noreturn]] void throw_at_line(const std::string& name, std::uint64_t line, const std::string& problem,
                                const std::string& hint) {
  throw FormatError(text(name, ", line ", line), problem, hint);
}

/// Numbers one after the other. Errors: FormatError with the line.
class Scanner {
 public:
  /// Values: line = number of the first line.
  Scanner(const std::string& name, std::uint64_t line) : name_(name), line_(line) {}

  /// Goes on with these lines.
  void take(std::string_view lines) {
    at_ = lines.data();
    end_ = at_ + lines.size();
  }

  [[nodiscard]] std::uint64_t line() const { return line_; }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw_at_line(name_, line_, problem, "correct the line, or create the file again");
  }

  /// To the start of the next line that holds something; false at the end.
  bool find_line() {
    for (;; ++at_, ++line_) {
      skip_blanks();
      if (at_ != end_ && *at_ == '%') at_ = std::find(at_, end_, '\n');
      if (at_ == end_) return false;
      if (*at_ != '\n') return true;
    }
  }

  void end_line() {
    skip_blanks();
    if (at_ != end_ && *at_ != '\n') refuse(text("\"", word(), "\" follows, expected the end of the line"));
  }

  /// An index from 0. Errors: not from 1 to `most` in the file.
  std::uint32_t index(const char* what, std::uint64_t most) {
    constexpr int kMostDigits = 18;
    skip_blanks();
    const char* const begin = at_;
    const std::uint64_t value = digits(kMostDigits);
    if (at_ == begin || !ends_here()) {
      at_ = begin;
      refuse(text("\"", word(), "\" is not the number of a ", what));
    }
    if (value == 0 || value > most) refuse(text(what, " ", value, " is out of range, expected 1 to ", most));
    return static_cast<std::uint32_t>(value - 1);
  }

  double number() {
    constexpr int kExactDigits = 15;
    skip_blanks();
    if (at_ != end_ && *at_ == '+' && at_ + 1 != end_ && at_[1] != '-') ++at_;
    const char* const begin = at_;
    const std::uint64_t short_number = digits(kExactDigits);
    if (at_ != begin && ends_here()) return static_cast<double>(short_number);
    double value = 0;
    const auto [stop, error] = std::from_chars(begin, end_, value);
    at_ = stop;
    if (error == std::errc{} && ends_here()) return value;
    at_ = begin;
    refuse(text("\"", word(), "\" is not a number of 64 bits"));
  }

 private:
  void skip_blanks() {
    while (at_ != end_ && is_blank(*at_)) ++at_;
  }

  [[nodiscard]] bool ends_here() const { return at_ == end_ || *at_ == '\n' || is_blank(*at_); }

  std::uint64_t digits(int most) {
    std::uint64_t value = 0;
    for (; most > 0 && at_ != end_ && is_digit(*at_); --most) value = value * 10 + static_cast<unsigned>(*at_++ - '0');
    return value;
  }

  [[nodiscard]] std::string word() const {
    constexpr std::ptrdiff_t kShown = 30;
    const char* stop = at_;
    while (stop != end_ && *stop != '\n' && !is_blank(*stop) && stop - at_ < kShown) ++stop;
    return {at_, stop};
  }

  const std::string& name_;
  std::uint64_t line_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
};

}  // namespace

/// The file from an offset on, in pieces that end with a line; the last line of the file may lack its end.
class MtxFile::Lines {
 public:
  Lines(const MtxFile& file, std::uint64_t begin)
      : file_(file), buffer_(std::min<std::uint64_t>(file.piece_bytes_, file.file_bytes_ + 1)), next_(begin) {}

  /// The next lines; empty at the end of the file. The next call makes the view invalid. Errors: FormatError (a line
  /// longer than a piece), IoError, Interrupted.
  std::string_view next() {
    cli::check_cancelled("spmm-convert");
    std::size_t got = 0;
    for (ssize_t more = 1; more > 0 && got < buffer_.size(); got += static_cast<std::size_t>(more)) {
      const auto at = static_cast<off_t>(next_ + got);
      more = io::retried([&] { return ::pread(file_.fd_.get(), buffer_.data() + got, buffer_.size() - got, at); });
      if (more >= 0) continue;
      throw IoError(at_offset(file_.name_, next_ + got), text("reading failed (", io::error_text(errno), ")"),
                    "check the disk or the connection to it, then run again");
    }
    const std::string_view all(buffer_.data(), got);
    const std::size_t lines = got < buffer_.size() ? got : all.rfind('\n') + 1;  // 0 if there is no end of a line
    if (got > 0 && lines == 0) {
      throw FormatError(at_offset(file_.name_, next_),
                        text("a line of more than ", got, " characters, expected short lines of text"),
                        "check that the file is a Matrix Market file, and create it again");
    }
    next_ += lines;
    return all.substr(0, lines);
  }

  /// Offset in the file behind the piece that next() has returned.
  [[nodiscard]] std::uint64_t end() const { return next_; }

 private:
  const MtxFile& file_;
  std::vector<char> buffer_;
  std::uint64_t next_;
};

MtxFile::MtxFile(const std::filesystem::path& path, std::size_t piece_bytes)
    : name_(path.string()), fd_(io::open_regular_file(name_)), piece_bytes_(piece_bytes) {
  struct stat info {};
  if (::fstat(fd_.get(), &info) == 0) file_bytes_ = static_cast<std::uint64_t>(info.st_size);
  ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // only a hint: a failure changes nothing
  Lines pieces(*this, 0);
  std::uint64_t number = 0;
  for (std::string_view piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::size_t end = std::min(piece.find('\n', begin), piece.size());
      const auto words = words_of(piece.substr(begin, end - begin));
      begin = std::min(end + 1, piece.size());
      if (++number == 1) {
        read_banner(words);
      } else if (!words.empty() && words[0][0] != '%') {
        data_begin_ = pieces.end() - (piece.size() - begin);
        data_line_ = number + 1;
        read_sizes(words, number);
        return;
      }
    }
  }
  if (number == 0) read_banner({});
  throw_at_line(name_, number, "the line of the sizes is missing", kCutHint);
}

void MtxFile::read_banner(const std::vector<std::string_view>& words) {
  constexpr const char* kHint =
      "write the first line as \"%%MatrixMarket matrix coordinate integer general\" (or real, pattern; symmetric)";
  const auto refuse = [&](const std::string& problem) { throw_at_line(name_, 1, problem, kHint); };
  if (words.empty() || lower(words[0]) != "%%matrixmarket") {
    refuse("does not begin with %%MatrixMarket, expected a Matrix Market file");
  }
  if (words.size() != 5) refuse(text("the banner has ", words.size(), " words, expected 5"));
  const auto word = [&](std::size_t at, const char* what, const std::vector<std::string>& known) {
    const std::string found = lower(words[at]);
    if (std::find(known.begin(), known.end(), found) != known.end()) return found;
    std::string expected;
    for (const std::string& one : known) expected += (expected.empty() ? "" : ", ") + one;
    throw_at_line(name_, 1, text("the ", what, " is \"", words[at], "\", expected ", expected), kHint);
  };
  word(1, "object", {"matrix"});
  is_array_ = word(2, "layout", {"coordinate", "array"}) == "array";
  // SciPy writes unsigned-integer. A hermitian matrix with real elements is a symmetric one.
  is_pattern_ = word(3, "field", {"integer", "unsigned-integer", "real", "double", "pattern"}) == "pattern";
  is_symmetric_ = word(4, "symmetry", {"general", "symmetric", "hermitian"}) != "general";
  if (is_array_ && is_pattern_) refuse("an array with field pattern has no elements");
}

void MtxFile::read_sizes(const std::vector<std::string_view>& words, std::uint64_t number) {
  const auto refuse = [&](const std::string& problem) {
    throw_at_line(name_, number, problem, "correct the line of the sizes: rows, columns and, for coordinate, elements");
  };
  const std::size_t expected = is_array_ ? 2 : 3;
  if (words.size() != expected) refuse(text(words.size(), " sizes, expected ", expected));
  std::uint64_t sizes[3] = {};
  for (std::size_t w = 0; w < expected; ++w) {
    const char* const end = words[w].data() + words[w].size();
    const auto [stop, error] = std::from_chars(words[w].data(), end, sizes[w]);
    if (error != std::errc{} || stop != end) refuse(text("the size \"", words[w], "\" is not a whole number"));
  }
  const auto [rows, columns, num_lines] = sizes;
  if (rows == 0 || columns == 0) refuse("the matrix has no rows or no columns, expected at least one of both");
  if (rows > kMaxSide || columns > kMaxSide) {
    refuse(text(rows, " x ", columns, " is too large: at most ", kMaxSide));
  }
  if (is_symmetric_ && rows != columns) refuse(text("a symmetric matrix of ", rows, " x ", columns));
  shape_ = {.rows = rows, .columns = columns};
  num_lines_ = !is_array_ ? num_lines : is_symmetric_ ? rows * (rows + 1) / 2 : rows * columns;
  const std::uint64_t least_bytes = is_array_ ? 2 : 4;  // of an element: one digit, or two indices ("1 1\n")
  const std::uint64_t bytes = file_bytes_ - data_begin_;
  if (num_lines_ <= bytes / least_bytes + 1) return;
  throw_at_line(name_, number,
                text(num_lines_, " elements are announced, more than the ", bytes, " bytes that follow can hold"),
                kCutHint);
}

void MtxFile::read(const Take& take) const {
  Lines pieces(*this, data_begin_);
  Scanner scanner(name_, data_line_);
  std::uint64_t count = 0;
  std::uint32_t row = 0;  // array: of the next element
  std::uint32_t column = 0;
  for (std::string_view piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    for (scanner.take(piece); scanner.find_line(); ++count) {
      if (count == num_lines_) scanner.refuse(text("more than the ", count, " elements that were announced"));
      if (!is_array_) {
        row = scanner.index("row", shape_.rows);
        column = scanner.index("column", shape_.columns);
      }
      const double value = is_pattern_ ? 1 : scanner.number();
      if (!is_array_) scanner.end_line();
      take(row, column, value, scanner.line());
      if (is_symmetric_ && row != column) take(column, row, value, scanner.line());
      if (is_array_ && ++row == shape_.rows) {
        ++column;
        row = is_symmetric_ ? column : 0;
      }
    }
  }
  if (count == num_lines_) return;
  throw FormatError(name_, text(count, " elements, ", num_lines_, " were announced"), kCutHint);
}

MtxOutput::MtxOutput(const std::filesystem::path& path, const MatrixShape& shape, double scale)
    : out_(path, 0), scale_(scale) {
  constexpr std::size_t kCountCharacters = 20;
  const std::string head = text("%%MatrixMarket matrix coordinate ", scale == 1 ? "integer" : "real", " general\n",
                                "% written by spmm-convert\n", shape.rows, " ", shape.columns, " ");
  count_offset_ = head.size();
  const std::string line = head + std::string(kCountCharacters, ' ') + "\n";
  std::memcpy(out_.add(line.size()), line.data(), line.size());
}

void MtxOutput::add(std::uint64_t row, std::uint64_t column, std::uint32_t value) {
  constexpr std::size_t kMostCharacters = 24;  // of a number
  std::array<char, 3 * (kMostCharacters + 1)> line;
  char* at = std::to_chars(line.data(), line.data() + kMostCharacters, row + 1).ptr;
  *at++ = ' ';
  at = std::to_chars(at, at + kMostCharacters, column + 1).ptr;
  *at++ = ' ';
  at = scale_ == 1 ? std::to_chars(at, at + kMostCharacters, value).ptr
                   : std::to_chars(at, at + kMostCharacters, value * scale_).ptr;
  *at++ = '\n';
  const auto bytes = static_cast<std::size_t>(at - line.data());
  std::memcpy(out_.add(bytes), line.data(), bytes);
  ++num_elements_;
}

std::uint64_t MtxOutput::publish() {
  out_.flush();
  const std::string count = std::to_string(num_elements_);
  out_.file().write_at(count_offset_, std::as_bytes(std::span(count)));
  out_.file().finish();
  out_.file().publish();
  return num_elements_;
}

}  // namespace spmm::tools
