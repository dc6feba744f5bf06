// The command line of spmm-gen.
#pragma once

#include <cxxopts.hpp>
#include <string>

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

cxxopts::Options make_gen_options();

/// Errors: UsageError names the option, what it said and what it takes.
GenJob parse_gen_options(const cxxopts::ParseResult& parsed);

}  // namespace spmm::tools
