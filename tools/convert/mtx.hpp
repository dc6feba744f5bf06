// Matrix Market files. Source: R. Boisvert, R. Pozo, K. Remington, The Matrix Market Exchange Formats (NISTIR 5935).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/convert/blocks.hpp"

namespace spmm::tools {

/// Rows and columns of a matrix that need not be square.
struct MatrixShape {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
};

/// Coordinate; integer, unsigned-integer, real and pattern; general, symmetric, and hermitian if it is real.
class MtxFile {
 public:
  /// Reads banner, comments and sizes. Values: most_characters = of a line. Errors: InputError, FormatError with the
  /// line, IoError.
  explicit MtxFile(const std::filesystem::path& path, std::size_t most_characters = std::size_t{8} << 20);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const MatrixShape& shape() const { return shape_; }
  /// Elements that read() finds; of them, those other than zero may be fewer.
  [[nodiscard]] std::uint64_t max_elements() const { return num_lines_ * (is_symmetric_ ? 2 : 1); }

  /// An element of the file. Values: row, column from 0.
  using Take = std::function<void(std::uint32_t row, std::uint32_t column, double value)>;

  /// Calls take() for every element, both places of one off the diagonal of a symmetric matrix.
  /// Errors: FormatError with the line, IoError, Interrupted, and those of take().
  void read(const Take& take) const;

 private:
  void read_banner(const std::vector<std::string_view>& words);
  void read_sizes(const std::vector<std::string_view>& words);

  std::string name_;
  std::uint64_t file_bytes_ = 0;
  std::size_t most_characters_;
  bool is_pattern_ = false;
  bool is_symmetric_ = false;
  MatrixShape shape_;
  std::uint64_t num_lines_ = 0;   ///< elements that the file holds
  std::uint64_t data_begin_ = 0;  ///< byte offset behind the line of the sizes
  std::uint64_t data_line_ = 0;   ///< number of the line of the sizes
};

/// Writes coordinates, general; integer, or real if there is a factor.
class MtxOutput {
 public:
  MtxOutput(const std::filesystem::path& path, const MatrixShape& shape, double scale);

  /// Values: row, column from 0.
  void add(std::uint64_t row, std::uint64_t column, std::uint32_t value);
  /// Gives the complete file its name; returns its number of elements. Errors: OutputError, IoError.
  std::uint64_t publish();

 private:
  BufferedOutput out_;
  double scale_;
  std::uint64_t count_offset_;  ///< of the number of elements, which is written at the end
  std::uint64_t num_elements_ = 0;
};

}  // namespace spmm::tools
