// Writes a random matrix file, record by record from its number; the command line of spmm-gen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/options/table.hpp"
#include "spmm/types.hpp"
#include "tools/gen/pattern.hpp"

namespace spmm::tools {

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
  PatternKind kind = PatternKind::uniform;
  PatternOptions shape;
  GenerateOptions generate;
  bool quiet = false;
};

cli::OptionTable make_gen_options();

/// Errors: UsageError names the option, what it said and what it takes.
GenJob parse_gen_options(const cli::ParsedOptions& parsed);

}  // namespace spmm::tools
