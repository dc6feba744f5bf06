// spmm-batch: many products, from a list.

#include <cstdlib>

#include "cli/exit_codes.hpp"
#include "cli/program.hpp"
#include "tools/batch/options.hpp"
#include "tools/batch/run.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;

int run(int argc, char** argv) {
  const auto variables = [](const std::string& name) {
    const char* const found = std::getenv(name.c_str());
    return found == nullptr ? std::nullopt : std::optional<std::string>(found);
  };
  const batch::BatchOptions options = batch::parse_batch_options(argc, argv, variables);
  if (options.answer) {
    cli::print_answer(*options.answer);
    return cli::kOk;
  }
  return options.list == "-" ? batch::run_feed(options) : batch::run_list(options);
}

}  // namespace

int spmm::tools::batch_main(int argc, char** argv) {
  return cli::run_program("spmm-batch", [&] { return run(argc, argv); });
}
