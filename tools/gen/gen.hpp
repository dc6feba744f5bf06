// Random matrices: the places of their blocks, writing of a file, the command line of spmm-gen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.hpp"
#include "spmm/types.hpp"

namespace spmm::tools {

/// `count` blocks at random cells of a part of the grid. The parts of one pattern are disjoint.
struct Part {
  std::uint64_t count = 0;
  std::uint64_t capacity = 0;  ///< number of cells
  /// The cell with that number; a larger number lies later in row-major order. Values: rank below capacity.
  std::function<BlockIndex(std::uint64_t rank)> cell{};
};

/// What some patterns take in addition to their number of blocks.
struct PatternOptions {
  std::optional<std::uint32_t> bandwidth{};  ///< banded: blocks on each side of the diagonal
  std::optional<std::uint32_t> group{};      ///< block-diagonal: block rows of a group; 64 without
  std::uint64_t seed = 1;                    ///< rmat: its places are drawn
};

/// Names of the patterns; spmm-gen --help explains them.
std::vector<std::string> pattern_names();

/// A pattern of k blocks on a grid of nb x nb. Values: name = one of pattern_names(); nb at least 1.
/// Memory: uniform, power-law, heavy-row, heavy-column and hub: none; rmat: about 16 bytes a block; others: 8 bytes a
/// block row, at most 128 MB. Errors: UsageError if k blocks do not fit; Interrupted.
std::vector<Part> make_pattern(const std::string& name, std::uint32_t nb, std::uint64_t k,
                               const PatternOptions& options);

struct GenerateOptions {
  MatrixHeader header;
  std::uint64_t seed = 1;
  std::uint32_t max_value = 0;  ///< elements are uniform in [0, max_value]; at most 65535
  double zero_blocks = 0;       ///< each block is all zero with this probability
  bool sorted = false;          ///< records by (i, j) instead of shuffled
  unsigned num_threads = 1;
};

/// Writes the file atomically. The blocks depend on the pattern, the seed and the values alone: `sorted` changes only
/// their order, num_threads nothing.
/// Memory: shuffled: a few MB per thread; sorted: also 8 bytes for each block.
/// Errors: OutputError, IoError, Interrupted.
void generate_file(const std::filesystem::path& path, const std::vector<Part>& pattern, const GenerateOptions& options);

/// What spmm-gen was asked for.
struct GenJob {
  std::string out;
  std::string pattern;
  PatternOptions shape;
  GenerateOptions generate;
  bool quiet = false;
};

cli::OptionTable make_gen_options();

/// Errors: UsageError names the option, what it said and what it takes.
GenJob parse_gen_options(const cli::ParsedOptions& parsed);

}  // namespace spmm::tools
