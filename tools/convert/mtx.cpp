// Reads and writes Matrix Market files.
#include "tools/convert/mtx.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <vector>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "io/files/input_file.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMaxSide = UINT32_MAX;
constexpr const char* kCutHint = "create or copy the file again: it is cut off, or the line of the sizes is wrong";

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

[[noreturn]] void throw_at_line(const std::string& name, std::uint64_t line, const std::string& problem,
                                const std::string& hint) {
  throw FormatError(text(name, ", line ", line), problem, hint);
}

/// All of a word as a number; nothing if it is none.
template <class T>
std::optional<T> number_of(std::string_view word) {
  T value{};
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || stop != word.data() + word.size()) return std::nullopt;
  return value;
}

/// The lines of a file, one after the other, in words. Errors: FormatError with the line, IoError, Interrupted.
class Lines {
 public:
  /// Values: offset = where to begin; number = of the line before that.
  Lines(const std::string& name, std::size_t most_characters, std::uint64_t offset = 0, std::uint64_t number = 0)
      : name_(name), in_(name, std::ios::binary), line_(most_characters + 1), offset_(offset), number_(number) {
    in_.seekg(static_cast<std::streamoff>(offset));
  }

  /// Reads a line; false at the end of the file.
  bool next() {
    if (number_ % 4096 == 0) cli::check_cancelled("spmm-convert");
    in_.getline(line_.data(), static_cast<std::streamsize>(line_.size()));
    const auto got = static_cast<std::size_t>(in_.gcount());
    if (in_.bad()) throw IoError(at_offset(name_, offset_), "reading failed", "check the disk, then run again");
    if (in_.fail() && got == 0) return false;
    ++number_;
    offset_ += got;
    if (in_.fail()) {
      throw_at_line(name_, number_, text("more than ", got, " characters, expected short lines of text"),
                    "check that the file is a Matrix Market file, and create it again");
    }
    split(std::string_view(line_.data(), in_.eof() ? got : got - 1));
    return true;
  }

  [[nodiscard]] const std::vector<std::string_view>& words() const { return words_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// Behind the line.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] bool is_comment() const { return words_.empty() || words_[0][0] == '%'; }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw_at_line(name_, number_, problem, "correct the line, or create the file again");
  }

  [[nodiscard]] std::string shown(std::size_t place) const {
    constexpr std::size_t kShown = 30;
    return "\"" + std::string(place < words_.size() ? words_[place].substr(0, kShown) : "") + "\"";
  }

  /// An index from 0. Errors: not from 1 to `most` in the file.
  [[nodiscard]] std::uint32_t index(std::size_t place, const char* what, std::uint64_t most) const {
    const auto value = place < words_.size() ? number_of<std::uint64_t>(words_[place]) : std::nullopt;
    if (!value) refuse(text(shown(place), " is not the number of a ", what));
    if (*value == 0 || *value > most) refuse(text(what, " ", *value, " is out of range, expected 1 to ", most));
    return static_cast<std::uint32_t>(*value - 1);
  }

  [[nodiscard]] double element(std::size_t place) const {
    std::string_view word = place < words_.size() ? words_[place] : "";
    if (word.starts_with('+') && !word.starts_with("+-")) word.remove_prefix(1);
    const auto value = number_of<double>(word);
    if (!value) refuse(text(shown(place), " is not a number of 64 bits"));
    return *value;
  }

 private:
  void split(std::string_view line) {
    words_.clear();
    for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != line.npos;) {
      const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
      words_.push_back(line.substr(at, end - at));
      at = end;
    }
  }

  const std::string& name_;
  std::ifstream in_;
  std::vector<char> line_;
  std::uint64_t offset_;
  std::uint64_t number_;
  std::vector<std::string_view> words_{};
};

}  // namespace

MtxFile::MtxFile(const std::filesystem::path& path, std::size_t most_characters)
    : name_(path.string()), most_characters_(most_characters) {
  io::open_regular_file(name_);  // refuses all others
  file_bytes_ = std::filesystem::file_size(path);
  Lines lines(name_, most_characters_);
  if (!lines.next()) read_banner({});
  read_banner(lines.words());
  do {
    if (!lines.next()) throw_at_line(name_, lines.number(), "the line of the sizes is missing", kCutHint);
  } while (lines.is_comment());
  data_begin_ = lines.offset();
  data_line_ = lines.number();
  read_sizes(lines.words());
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
  word(2, "layout", {"coordinate"});
  // SciPy writes unsigned-integer. A hermitian matrix with real elements is a symmetric one.
  is_pattern_ = word(3, "field", {"integer", "unsigned-integer", "real", "double", "pattern"}) == "pattern";
  is_symmetric_ = word(4, "symmetry", {"general", "symmetric", "hermitian"}) != "general";
}

void MtxFile::read_sizes(const std::vector<std::string_view>& words) {
  const auto refuse = [&](const std::string& problem) {
    throw_at_line(name_, data_line_, problem, "correct the line of the sizes: rows, columns and elements");
  };
  if (words.size() != 3) refuse(text(words.size(), " sizes, expected 3"));
  std::uint64_t sizes[3] = {};
  for (std::size_t w = 0; w < 3; ++w) {
    const auto size = number_of<std::uint64_t>(words[w]);
    if (!size) refuse(text("the size \"", words[w], "\" is not a whole number"));
    sizes[w] = *size;
  }
  const auto [rows, columns, num_lines] = sizes;
  if (rows == 0 || columns == 0) refuse("the matrix has no rows or no columns, expected at least one of both");
  if (rows > kMaxSide || columns > kMaxSide) {
    refuse(text(rows, " x ", columns, " is too large: at most ", kMaxSide));
  }
  if (is_symmetric_ && rows != columns) refuse(text("a symmetric matrix of ", rows, " x ", columns));
  shape_ = {.rows = rows, .columns = columns};
  num_lines_ = num_lines;
  constexpr std::uint64_t kLeastBytes = 4;  // of an element: two indices, "1 1\n"
  const std::uint64_t bytes = file_bytes_ - data_begin_;
  if (num_lines_ <= bytes / kLeastBytes + 1) return;
  throw_at_line(name_, data_line_,
                text(num_lines_, " elements are announced, more than the ", bytes, " bytes that follow can hold"),
                kCutHint);
}

void MtxFile::read(const Take& take) const {
  Lines lines(name_, most_characters_, data_begin_, data_line_);
  const std::size_t num_words = is_pattern_ ? 2 : 3;
  std::uint64_t count = 0;
  while (lines.next()) {
    if (lines.is_comment()) continue;
    if (count++ == num_lines_) lines.refuse(text("more than the ", num_lines_, " elements that were announced"));
    const std::uint32_t row = lines.index(0, "row", shape_.rows);
    const std::uint32_t column = lines.index(1, "column", shape_.columns);
    const double value = is_pattern_ ? 1 : lines.element(2);
    if (lines.words().size() > num_words) {
      lines.refuse(lines.shown(num_words) + " follows, expected the end of the line");
    }
    take(row, column, value);
    if (is_symmetric_ && row != column) take(column, row, value);
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
