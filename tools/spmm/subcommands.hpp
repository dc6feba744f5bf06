// The programs that are one with spmm: run by their own names, which are links to spmm, or as a subcommand of it.
#pragma once

#include <optional>
#include <vector>

#include "cli/options.hpp"

namespace spmm::tools {

/// Runs spmm-NAME if that is the last part of argv[0], or if argv[1] is NAME, and returns its exit code; nothing
/// if neither is: the arguments are those of a product. A file of that name next to the subcommand is an error of
/// usage.
std::optional<int> run_subcommand(int argc, char** argv);

std::vector<cli::SubcommandName> subcommand_names();

// The main functions, each in its tool's folder. Values: argv[0] = any path.
int batch_main(int argc, char** argv);
int bench_main(int argc, char** argv);
int cat_main(int argc, char** argv);
int compare_main(int argc, char** argv);
int convert_main(int argc, char** argv);
int gen_main(int argc, char** argv);
int info_main(int argc, char** argv);
int verify_main(int argc, char** argv);

}  // namespace spmm::tools
