// spmm-cat: one result file of a folder of parts.
#include <iostream>
#include <string>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "io/formats/foreign_format.hpp"
#include "spmm/error.hpp"
#include "tools/cat/cat_parts.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;

constexpr const char* kNotes = R"(
Examples:
  spmm-cat c c.bin
  spmm-cat --check c

FOLDER is what spmm --parts has written. OUT gets the same bytes as without --parts; it appears when it is complete and
every part was right: its checksum, its block rows, and the order of its blocks. With --check nothing is written.

Exit codes: 0 done, 2 usage, 65 malformed index or part, or a wrong checksum, 66 no such folder, 71 more blocks than one
file holds, 73 cannot create the file, 74 reading or writing failed, 75 interrupted (nothing was written).
)";

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-cat", "Makes one result file of a folder of parts.\n");
  options.usage("[options] FOLDER OUT", "spmm cat");
  options.add_options("hidden")("folder", "", value())("out", "", value());
  options.add_options()                                        //
      ("check", "only read the parts and check them")          //
      ("no-clobber", "refuse to replace an existing file")     //
      ("durable", "wait until OUT would survive a power cut")  //
      ("q,quiet", "print nothing on success");
  cli::add_common_options(options);
  options.parse_positional({"folder", "out"});
  return options;
}

int run(const cli::ParsedOptions& parsed) {
  const std::string folder = cli::required_positional(parsed, "folder", "folder of parts");
  const bool only_check = cli::option_flag(parsed, "check");
  if (only_check && parsed.count("out") > 0) {
    throw UsageError("--check", "is given together with an output", "leave one of them out");
  }
  const std::string out =
      only_check ? "" : cli::required_positional(parsed, "out", "output (OUT)", cli::Dash::refused_output);
  io::reject_foreign_ending(out);
  const tools::CatResult result = tools::cat_parts(
      folder, out,
      {.durable = cli::option_flag(parsed, "durable"), .no_clobber = cli::option_flag(parsed, "no-clobber")});
  if (!cli::option_flag(parsed, "quiet")) {
    std::cout << text(result.num_parts, " parts, ", result.num_blocks, " blocks: checksums and block rows are right\n");
  }
  return cli::kOk;
}

}  // namespace

int spmm::tools::cat_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-cat", .options = make_options, .notes = kNotes}, argc, argv, run);
}
