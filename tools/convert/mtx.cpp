// Reads Matrix Market files.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "io/files/input_file.hpp"
#include "spmm/error.hpp"
#include "tools/convert/convert.hpp"

namespace spmm::tools {
namespace {

constexpr std::size_t kMaxCharacters = std::size_t{8} << 20;  // of a line
constexpr const char* kCutHint = "create or copy the file again: it is cut off, or the line of the sizes is wrong";

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// All of a word as a number, perhaps with a plus sign; nothing if it is none, or a whole number that is too large.
/// What is beyond a double is 0 or infinite.
template <class T>
std::optional<T> number_of(std::string_view word) {
  if (word.size() > 1 && word[0] == '+' && word[1] != '-') word.remove_prefix(1);
  T value{};
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc::invalid_argument || stop != word.data() + word.size()) return std::nullopt;
  if (error == std::errc{}) return value;
  if constexpr (std::is_floating_point_v<T>) return std::strtod(std::string(word).c_str(), nullptr);
  return std::nullopt;
}

}  // namespace

MtxFile::MtxFile(const std::string& path) : name_(path), line_(kMaxCharacters + 1) {
  io::open_regular_file(name_);  // refuses all others
  file_bytes_ = std::filesystem::file_size(path);
  in_.open(path, std::ios::binary);
  if (!next_line()) line_number_ = 1;
  read_banner();
  do {
    if (!next_line()) refuse("the line of the sizes is missing", kCutHint);
  } while (words_.empty() || words_[0][0] == '%');
  read_sizes();
}

/// Reads a line into words_; false at the end of the file.
bool MtxFile::next_line() {
  if (line_number_ % 4096 == 0) cli::check_cancelled("spmm-convert");
  words_.clear();
  in_.getline(line_.data(), static_cast<std::streamsize>(line_.size()));
  const auto got = static_cast<std::size_t>(in_.gcount());
  if (in_.bad()) throw IoError(at_offset(name_, offset_), "reading failed", "check the disk, then run again");
  if (in_.fail() && got == 0) return false;
  ++line_number_;
  offset_ += got;
  constexpr const char* kHint = "check that the file is a Matrix Market file, and create it again";
  if (in_.fail()) refuse(text("more than ", got, " characters, expected short lines of text"), kHint);
  const std::string_view line(line_.data(), in_.eof() ? got : got - 1);
  if (line.find('\0') != line.npos) refuse("a zero byte, expected text", kHint);
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words_.push_back(line.substr(at, end - at));
    at = end;
  }
  return true;
}

void MtxFile::refuse(const std::string& problem, const std::string& hint) const {
  throw FormatError(text(name_, ", line ", line_number_), problem, hint);
}

std::string MtxFile::shown_word(std::size_t place) const {
  constexpr std::size_t kShown = 30;
  return "\"" + std::string(place < words_.size() ? words_[place].substr(0, kShown) : "") + "\"";
}

/// An index from 0, in the file from 1 to `most`.
std::uint32_t MtxFile::index_word(std::size_t place, const char* what, std::uint64_t most) const {
  const auto value = place < words_.size() ? number_of<std::uint64_t>(words_[place]) : std::nullopt;
  if (!value) refuse(text(shown_word(place), " is not the number of a ", what));
  if (*value == 0 || *value > most) refuse(text(what, " ", *value, " is out of range, expected 1 to ", most));
  return static_cast<std::uint32_t>(*value - 1);
}

double MtxFile::element_word(std::size_t place) const {
  const auto value = place < words_.size() ? number_of<double>(words_[place]) : std::nullopt;
  if (!value) refuse(shown_word(place) + " is not a number");
  return *value;
}

void MtxFile::read_banner() {
  constexpr const char* kHint =
      "write the first line as \"%%MatrixMarket matrix coordinate integer general\" (or real, pattern; symmetric)";
  if (words_.empty() || lower(words_[0]) != "%%matrixmarket") {
    refuse("does not begin with %%MatrixMarket, expected a Matrix Market file", kHint);
  }
  if (words_.size() != 5) refuse(text("the banner has ", words_.size(), " words, expected 5"), kHint);
  const auto word = [&](std::size_t at, const char* what, const std::vector<std::string>& known) {
    const std::string found = lower(words_[at]);
    if (std::find(known.begin(), known.end(), found) != known.end()) return found;
    std::string expected;
    for (const std::string& one : known) expected += (expected.empty() ? "" : ", ") + one;
    refuse(text("the ", what, " is ", shown_word(at), ", expected ", expected), kHint);
  };
  word(1, "object", {"matrix"});
  word(2, "layout", {"coordinate"});
  // SciPy writes unsigned-integer. A hermitian matrix with real elements is a symmetric one.
  is_pattern_ = word(3, "field", {"integer", "unsigned-integer", "real", "double", "pattern"}) == "pattern";
  is_symmetric_ = word(4, "symmetry", {"general", "symmetric", "hermitian"}) != "general";
}

void MtxFile::read_sizes() {
  constexpr const char* kHint = "correct the line of the sizes: rows, columns and elements";
  if (words_.size() != 3) refuse(text(words_.size(), " sizes, expected 3"), kHint);
  std::uint64_t sizes[3] = {};
  for (std::size_t w = 0; w < 3; ++w) {
    const auto size = number_of<std::uint64_t>(words_[w]);
    if (!size) refuse(text("the size ", shown_word(w), " is not a whole number"), kHint);
    sizes[w] = *size;
  }
  const auto [rows, columns, num_lines] = sizes;
  if (rows == 0 || columns == 0) refuse("the matrix has no rows or no columns, expected at least one of both", kHint);
  if (rows > UINT32_MAX || columns > UINT32_MAX) {
    refuse(text(rows, " x ", columns, " is too large: at most ", UINT32_MAX), kHint);
  }
  if (is_symmetric_ && rows != columns) refuse(text("a symmetric matrix of ", rows, " x ", columns), kHint);
  shape_ = {.rows = rows, .columns = columns};
  num_lines_ = num_lines;
  constexpr std::uint64_t kLeastBytes = 4;  // of an element: two indices, "1 1\n"
  const std::uint64_t bytes = file_bytes_ - offset_;
  if (num_lines_ <= bytes / kLeastBytes + 1) return;
  refuse(text(num_lines_, " elements are announced, more than the ", bytes, " bytes that follow can hold"), kCutHint);
}

void MtxFile::read(const std::function<void(std::uint32_t row, std::uint32_t column, double value)>& take) {
  const std::size_t num_words = is_pattern_ ? 2 : 3;
  std::uint64_t count = 0;
  while (next_line()) {
    if (words_.empty() || words_[0][0] == '%') continue;
    if (count++ == num_lines_) refuse(text("more than the ", num_lines_, " elements that were announced"));
    const std::uint32_t row = index_word(0, "row", shape_.rows);
    const std::uint32_t column = index_word(1, "column", shape_.columns);
    const double value = is_pattern_ ? 1 : element_word(2);
    if (words_.size() > num_words) refuse(shown_word(num_words) + " follows, expected the end of the line");
    take(row, column, value);
    if (is_symmetric_ && row != column) take(column, row, value);
  }
  if (count == num_lines_) return;
  throw FormatError(name_, text(count, " elements, ", num_lines_, " were announced"), kCutHint);
}

}  // namespace spmm::tools
