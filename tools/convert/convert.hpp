// The parts of spmm-convert: its options, the reader of Matrix Market files, and the rule by which numbers become
// elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.hpp"
#include "spmm/io.hpp"
#include "spmm/types.hpp"

namespace spmm::tools {

inline constexpr std::uint64_t kMaxN = UINT32_MAX;  ///< largest side of a matrix

/// Rows and columns of a matrix that need not be square.
struct MatrixShape {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
};

/// One stored number. 16 bytes: what bounds the memory of a conversion.
struct MatrixEntry {
  std::uint32_t column = 0;
  std::uint32_t row = 0;
  double value = 0;

  [[nodiscard]] std::uint64_t key() const { return std::uint64_t{row} << 32 | column; }
};
static_assert(sizeof(MatrixEntry) == 16);

/// How numbers become elements of 16 bits: README.md.
struct ElementRule {
  double scale = 1;       ///< factor of every sum, before it is checked
  bool round = false;     ///< fractions go to the nearest whole number (of two, to the even one); otherwise errors
  bool saturate = false;  ///< below 0 becomes 0, above 65,535 that; otherwise errors
};

/// Number of elements that the rule has changed. One that was rounded as well counts as raised or cut alone.
struct ChangedElements {
  /// "; 3 rounded, 2 raised to 0, 1 cut to 65535"; "" if none was changed.
  [[nodiscard]] std::string summary() const;

  std::uint64_t rounded = 0;
  std::uint64_t raised = 0;  ///< to 0
  std::uint64_t cut = 0;     ///< to 65,535
};

/// Sorts a list by row and column, adds up the numbers of each place and replaces them by elements; zeros are dropped.
/// Memory: none beyond the list. Errors: FormatError with the first place in the file that breaks the rule.
void make_elements(std::vector<MatrixEntry>& entries, const ElementRule& rule, ChangedElements& changed,
                   const std::string& file);

/// A Matrix Market file: coordinate; integer, unsigned-integer, real and pattern; general, symmetric, and hermitian if
/// it is real. Source: R. Boisvert, R. Pozo, K. Remington, The Matrix Market Exchange Formats (NISTIR 5935).
class MtxFile {
 public:
  /// Reads banner, comments and sizes. Errors: InputError, FormatError with the line, IoError.
  explicit MtxFile(const std::string& path);

  [[nodiscard]] const MatrixShape& shape() const { return shape_; }
  /// Elements that read() finds; of them, those other than zero may be fewer.
  [[nodiscard]] std::uint64_t max_elements() const { return num_lines_ * (is_symmetric_ ? 2 : 1); }

  /// Calls take(row, column, value), counted from 0, for every element, and for both places of one off the diagonal of
  /// a symmetric matrix. Once only. Errors: FormatError with the line, IoError, Interrupted, and those of take().
  void read(const std::function<void(std::uint32_t row, std::uint32_t column, double value)>& take);

 private:
  bool next_line();
  void read_banner();
  void read_sizes();
  [[nodiscard]] std::string shown_word(std::size_t place) const;
  [[nodiscard]] std::uint32_t index_word(std::size_t place, const char* what, std::uint64_t most) const;
  [[nodiscard]] double element_word(std::size_t place) const;
  [[noreturn]] void refuse(const std::string& problem,
                           const std::string& hint = "correct the line, or create the file again") const;

  std::string name_;
  std::uint64_t file_bytes_ = 0;
  std::ifstream in_;
  std::vector<char> line_;
  std::vector<std::string_view> words_;  ///< of the line
  std::uint64_t line_number_ = 0;
  std::uint64_t offset_ = 0;  ///< behind the line
  bool is_pattern_ = false;
  bool is_symmetric_ = false;
  MatrixShape shape_;
  std::uint64_t num_lines_ = 0;  ///< elements that the file holds
};

/// What spmm-convert was asked for.
struct ConvertOptions {
  std::string in;
  std::string out;
  bool from_mtx = false;  ///< IN is a Matrix Market file, else one of blocks
  bool to_mtx = false;
  bool quiet = false;

  ElementRule rule;  ///< its factor goes for .mtx, too

  // To .bin.
  bool auto_block = false;
  std::optional<std::uint32_t> block;
  std::optional<std::uint32_t> n;
  std::optional<std::string> like;

  // From .bin.
  std::optional<ElementType> type;
  std::optional<MatrixShape> shape;
};

cli::OptionTable make_convert_options();

/// Opens the input to see what it is. Errors: UsageError, InputError, FormatError.
ConvertOptions parse_convert_options(const cli::ParsedOptions& parsed);

/// Writes the output; returns what it is in one line. Errors: those of readers and writers, UsageError (a size that
/// does not fit), ShapeError.
std::string convert_file(const ConvertOptions& options);

}  // namespace spmm::tools
