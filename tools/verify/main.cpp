// spmm-verify: is a file the product of two others?
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>

#include "base/memory/machine_memory.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options.hpp"
#include "cli/program.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/common/options.hpp"
#include "tools/spmm/command_line.hpp"
#include "tools/spmm/subcommands.hpp"
#include "tools/verify/verify_files.hpp"

namespace {

using namespace spmm;

constexpr const char* kNotes = R"(
Examples:
  spmm-verify a.bin b.bin c.bin
  spmm-verify --rows 0:1000 a.bin b.bin c0.bin
  spmm-verify --transpose-b --triangle upper --keep 10 a.bin a.bin c.bin
  spmm-verify a.bin b.bin theirs.bin --any-order --allow-zero-blocks

A and B are matrices, C is what any program says is their product. Every element row that A stores or C holds is checked
by an equation with random numbers modulo 2^61 - 1: a wrong row passes with a probability of at most 1.3e-18, and a right
one always does. Rows that hold elements at the limit 4294967295 are computed again, as are all rows if elements were
dropped. What differs is shown. --verify-seed takes random numbers from a key; who knows the key can forge a result.

Variables, if the option is not given: SPMM_BACKEND, SPMM_THREADS, SPMM_MEMORY_LIMIT.
Exit codes: 0 it is the product, 1 it is not, 2 wrong command line, 65 a file breaks the format or has blocks outside of
--rows, 66 a file cannot be opened, 71 does not fit the memory or the limit, 74 reading failed, 75 interrupted.
)";

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-verify", "Proves that C = A * B, or shows where it is not.\n");
  options.usage("[options] A B C", "spmm verify");
  options.add_options("hidden")("a", "", value())("b", "", value())("c", "", value());
  options.add_options()                                                                       //
      ("any-order", "the order of the blocks of C does not matter")                           //
      ("allow-zero-blocks", "blocks of C may be all zero")                                    //
      ("rows", "C has these block rows of the product, and no others", value(), "FIRST:END")  //
      ("transpose-a", "C is the product of the transpose of A")                               //
      ("transpose-b", "C is the product with the transpose of B")                             //
      ("verify-seed", "key of random numbers; default: the system's", value(), "N")           //
      ("threads", "host threads; 0 = every core this process may use", value(), "N")          //
      ("memory-limit", "for buffers; default: most of what is free", value(), "SIZE")         //
      ("q,quiet", "print nothing if C is the product");
  cli::add_selection_options(options, "What C has of the product, as it was given to spmm");
  cli::add_common_options(options);
  options.parse_positional({"a", "b", "c"});
  return options;
}

int run(const cli::ParsedOptions& parsed) {
  const std::string a = cli::required_positional(parsed, "a", "left operand (A)");
  const std::string b = cli::required_positional(parsed, "b", "right operand (B)");
  const std::string c = cli::required_positional(parsed, "c", "product (C)");
  const auto seed = cli::option_count(parsed, "verify-seed", 1);
  const std::uint64_t memory_limit =
      cli::option_bytes(parsed, "memory-limit").value_or(available_memory_bytes() / 100 * 90);
  ProductOptions product;
  cli::set_product_options(product, parsed);
  const bool quiet = cli::option_flag(parsed, "quiet");
  const tools::VerifyFilesOptions options{
      .any_order = cli::option_flag(parsed, "any-order"),
      .allow_zero_blocks = cli::option_flag(parsed, "allow-zero-blocks"),
      .product = product,
      .key = seed.value_or(0),
      .memory_limit_bytes = memory_limit,
      .on_notice = quiet ? NoticeFn() : [](const std::string& notice) { cli::note("spmm-verify", notice); }};
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock,
                .on_progress = no_progress,
                .cancel = &cli::cancel_flag(),
                .num_threads = tools::option_threads(parsed)};
  const ProofResult result = tools::verify_files(a, b, c, options, run);
  if (result.num_wrong != 0) {
    std::cout << text("different: ", result.differences, "\n");
    return cli::kNegative;
  }
  if (!quiet) {
    std::cout << text("proven: ", result.num_blocks, " blocks, ", result.num_rows, " element rows",
                      seed ? text(", key ", *seed) : "",
                      result.num_saturated > 0 ? ", " + cli::saturation_text(result.num_saturated) : "",
                      result.num_exact > 0 ? text(", ", result.num_exact, " block rows computed again") : "", "\n");
  }
  return cli::kOk;
}

}  // namespace

int spmm::tools::verify_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-verify", .options = make_options, .notes = kNotes}, argc, argv, run);
}
