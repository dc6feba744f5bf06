// Reads the head of a Matrix Market file: banner, comments, sizes.
#include "tools/convert/mtx/header.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMaxSide = UINT32_MAX;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  constexpr std::string_view kBlanks = " \t\r";
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

void read_banner(std::string_view line, MtxHeader& header, const std::string& name) {
  const auto refuse = [&](const std::string& problem, const char* hint) { throw_at_line(name, 1, problem, hint); };
  const auto words = words_of(line);
  constexpr const char* kBanner =
      "write the first line as \"%%MatrixMarket matrix coordinate integer general\" (or real, pattern; symmetric)";
  if (words.empty() || lower(words[0]) != "%%matrixmarket") {
    refuse("does not begin with %%MatrixMarket, expected a Matrix Market file", kBanner);
  }
  if (words.size() != 5) refuse(text("the banner has ", words.size(), " words, expected 5"), kBanner);
  if (lower(words[1]) != "matrix") refuse(text("holds a \"", words[1], "\", expected a matrix"), kBanner);
  const std::string layout = lower(words[2]);
  if (layout != "coordinate" && layout != "array") {
    refuse(text("the layout \"", words[2], "\" is not known, expected coordinate or array"), kBanner);
  }
  header.is_array = layout == "array";
  const std::string field = lower(words[3]);
  if (field == "complex") {
    refuse("the elements are complex, expected whole numbers from 0 to 65535", "take the real part, if that is meant");
  }
  if (field != "integer" && field != "real" && field != "double" && field != "pattern") {
    refuse(text("the field \"", words[3], "\" is not known, expected integer, real or pattern"), kBanner);
  }
  header.field = field == "integer" ? MtxField::integer : field == "pattern" ? MtxField::pattern : MtxField::real;
  if (header.is_array && header.field == MtxField::pattern) {
    refuse("an array with field pattern has no elements", "use coordinate with pattern, or array with integer or real");
  }
  const std::string symmetry = lower(words[4]);
  if (symmetry == "skew-symmetric") {
    refuse("the matrix is skew-symmetric: for each element it has the negative one, and elements are 0 to 65535",
           "store its absolute values as general or symmetric, if that is meant");
  }
  if (symmetry == "hermitian") {
    refuse("the matrix is hermitian: its elements are complex, expected whole numbers from 0 to 65535",
           "store a real matrix as symmetric");
  }
  if (symmetry != "general" && symmetry != "symmetric") {
    refuse(text("the symmetry \"", words[4], "\" is not known, expected general or symmetric"), kBanner);
  }
  header.symmetric = symmetry == "symmetric";
}

void read_sizes(std::string_view line, std::uint64_t number, MtxHeader& header, const std::string& name) {
  const auto words = words_of(line);
  const std::size_t expected = header.is_array ? 2 : 3;
  constexpr const char* kHint = "correct the line of the sizes: rows, columns and, for coordinate, elements";
  if (words.size() != expected) {
    throw_at_line(name, number, text(words.size(), " sizes, expected ", expected), kHint);
  }
  std::uint64_t sizes[3] = {};
  for (std::size_t w = 0; w < expected; ++w) {
    const char* const end = words[w].data() + words[w].size();
    const auto [stop, error] = std::from_chars(words[w].data(), end, sizes[w]);
    if (error != std::errc{} || stop != end) {
      throw_at_line(name, number, text("the size \"", words[w], "\" is not a whole number"), kHint);
    }
  }
  header.rows = sizes[0];
  header.columns = sizes[1];
  if (header.rows == 0 || header.columns == 0) {
    throw_at_line(name, number, "the matrix has no rows or no columns, expected at least one of both", kHint);
  }
  if (header.rows > kMaxSide || header.columns > kMaxSide) {
    throw_at_line(name, number, text(header.rows, " x ", header.columns, " is too large: at most ", kMaxSide), kHint);
  }
  if (header.symmetric && header.rows != header.columns) {
    throw_at_line(name, number, text("a symmetric matrix of ", header.rows, " x ", header.columns), kHint);
  }
  header.num_lines = sizes[2];
  if (header.is_array) {
    header.num_lines = header.symmetric ? header.rows * (header.rows + 1) / 2 : header.rows * header.columns;
  }
}

/// Errors: FormatError (more elements than the rest of the file can hold).
void check_num_lines(const MtxHeader& header, std::uint64_t number, std::uint64_t file_bytes, const std::string& name) {
  // The shortest line of an element: two indices ("1 1\n"), or one digit.
  const std::uint64_t least = header.is_array ? 2 : 4;
  if (header.num_lines <= (file_bytes - header.data_begin) / least + 1) return;
  throw_at_line(name, number,
                text(header.num_lines, " elements are announced, more than the ", file_bytes - header.data_begin,
                     " bytes that follow can hold"),
                "create or copy the file again: it is cut off, or the line of the sizes is wrong");
}

}  // namespace

void throw_at_line(const std::string& name, std::uint64_t line, const std::string& problem, const std::string& hint) {
  throw FormatError(text(name, ", line ", line), problem, hint);
}

MtxHeader read_mtx_header(TextPieces& lines, std::uint64_t file_bytes, const std::string& name) {
  MtxHeader header;
  std::uint64_t number = 0;
  for (std::string_view piece = lines.next(); !piece.empty(); piece = lines.next()) {
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::size_t end = std::min(piece.find('\n', begin), piece.size());
      const std::string_view line = piece.substr(begin, end - begin);
      begin = end + 1;
      ++number;
      if (number == 1) {
        read_banner(line, header, name);
        continue;
      }
      const auto words = words_of(line);
      if (words.empty() || words[0][0] == '%') continue;
      read_sizes(line, number, header, name);
      header.data_begin = std::min<std::uint64_t>(lines.offset() + begin, file_bytes);
      check_num_lines(header, number, file_bytes, name);
      return header;
    }
  }
  if (number == 0) read_banner("", header, name);
  throw_at_line(name, number, "the line of the sizes is missing", "create or copy the file again: it is cut off");
}

}  // namespace spmm::tools
