// spmm-info: what is in a matrix file, and what would the product of two be.
#include <string>
#include <utility>

#include "base/run/parallel.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "spmm/error.hpp"
#include "tools/info/info_text.hpp"
#include "tools/info/matrix_info.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;

constexpr std::uint64_t kMaxThreads = 1024;

constexpr const char* kNotes = R"(
Examples:
  spmm-info a.bin
  spmm-info a.bin b.bin
  spmm-info a.bin b.bin --json | jq .product.pairs
  spmm-info out.bin --type u32

With one file: header, file size, density, blocks per block row, largest element, all-zero blocks, and of a result how
many elements are at the limit 4294967295. With two files, A and B, also what A * B will be: the exact number of pairs (block products), the number of result blocks to be expected where
blocks are spread evenly, and at most, the output's size, and how many elements can saturate at most, by the largest
elements of A and B and the number of pairs. The whole file is read. Indices are checked; whether a block is stored twice is seen only by reading "sorted"
in the report: records in strictly rising order hold no block twice.

Exit codes: 0 ok, 2 usage, 65 malformed file or files of different n or m, 66 no such file, 71 memory, 74 reading failed,
75 interrupted.
)";

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-info", "Shows what is in a block-sparse matrix file.\n");
  options.usage("[options] FILE [FILE2]", "spmm info");
  options.add_options("hidden")("file", "", value())("file2", "", value());
  options.add_options()                                                                    //
      ("json", "print JSON")                                                               //
      ("type", "elements of the files: auto, u16 or u32", value("auto"), "TYPE")           //
      ("transpose-a", "two files: predict the product of the transpose of the first one")  //
      ("transpose-b", "the same of the second one")                                        //
      ("threads", "threads (default: all cores)", value(), "T");
  cli::add_common_options(options);
  options.parse_positional({"file", "file2"});
  return options;
}

int run(const cli::ParsedOptions& parsed) {
  const std::string file = cli::required_positional(parsed, "file", "matrix file");
  const auto type = tools::type_option(parsed);
  const auto threads =
      static_cast<unsigned>(cli::option_count(parsed, "threads", 1, kMaxThreads).value_or(usable_cores()));
  const bool as_json = cli::option_flag(parsed, "json");
  const bool two_files = parsed.count("file2") > 0;
  for (const char* option : {"transpose-a", "transpose-b"}) {
    if (two_files || parsed.count(option) == 0) continue;
    throw UsageError(std::string("--") + option, "is of a product", "name two files, or leave it out");
  }

  cli::JsonWriter json(2);
  if (two_files) json.open("", '{');
  std::string lines;
  const auto describe = [&](tools::MatrixInfo& info, const char* key) {
    if (as_json) {
      tools::add_info(json, two_files ? key : "", info);
      return;
    }
    lines += tools::info_text(info);
    if (two_files) lines += "\n";
  };
  tools::MatrixInfo a = tools::read_info(file, type, threads);
  describe(a, "a");
  if (two_files) {
    tools::MatrixInfo b = tools::read_info(cli::required_positional(parsed, "file2", "second file"), type, threads);
    describe(b, "b");
    if (cli::option_flag(parsed, "transpose-a")) std::swap(a.rows, a.columns);
    if (cli::option_flag(parsed, "transpose-b")) std::swap(b.rows, b.columns);
    const tools::ProductInfo product = tools::predict_product(a, b);
    tools::add_product(json, "product", product);
    json.close('}');
    lines += tools::product_text(product, a.header.m);
  }
  if (as_json) lines = json.take() + "\n";
  cli::print_answer(lines);
  return cli::kOk;
}

}  // namespace

int spmm::tools::info_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-info", .options = make_options, .notes = kNotes}, argc, argv, run);
}
