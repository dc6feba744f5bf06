// The command line of spmm-convert, and one conversion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/options/table.hpp"
#include "spmm/io.hpp"
#include "tools/convert/elements.hpp"
#include "tools/convert/mtx.hpp"

namespace spmm::tools {

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
