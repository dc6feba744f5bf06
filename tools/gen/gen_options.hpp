// The command line of spmm-gen.
#pragma once

#include <string>

#include "cli/options/table.hpp"
#include "tools/gen/generate.hpp"
#include "tools/gen/pattern.hpp"

namespace spmm::tools {

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
