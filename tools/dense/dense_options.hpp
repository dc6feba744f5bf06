// The command line of spmm-dense.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "tools/dense/dense_run.hpp"

namespace spmm::tools {

/// What spmm-dense was asked for.
struct DenseJob {
  DenseOptions options;
  std::vector<dense::Shape> shapes;  ///< one of zeros where files give it
  std::vector<std::string> files;    ///< none, or A and B
  ValueRange range;                  ///< of random operands
  std::optional<cli::OptionText> print;
  std::string json;  ///< "" = none, "-" = standard output
};

cli::OptionTable dense_description();

/// Errors: UsageError names the option, what it said and what it takes.
DenseJob parse_dense(const cli::ParsedOptions& parsed);

}  // namespace spmm::tools
