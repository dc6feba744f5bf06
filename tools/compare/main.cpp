// spmm-compare: do two matrix files hold the same matrix?
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "report/text.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/compare/compare.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;

constexpr const char* kNotes = R"(
Examples:
  spmm-compare expected.bin out.bin
  spmm-compare theirs.bin ours.bin --any-order --ignore-zero-blocks
  spmm-compare a.bin copy_of_a.bin --any-order -q && echo same

Both files must hold the same blocks, in the order of (i, j) as results of spmm are; --any-order is for files of other
programs and for input matrices. An element of a block that one file does not have counts as 0 there and is shown as "no
block". A block that is all zero in one file and missing in the other is a difference too, unless --ignore-zero-blocks is
given. Elements of results at the limit 4294967295 are counted.
Elements are compared by value, so an operand (16-bit elements, in any order of blocks) may be compared with a result
(32-bit elements). If these differ, one line says which is which, and --max-differences lists differences.

Exit codes, as of cmp and diff: 0 the same, 1 different, 2 trouble of any kind (usage, unreadable or malformed file,
interrupted).
)";

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-compare", "Compares two block-sparse matrix files element by element.\n");
  options.usage("[options] LEFT RIGHT", "spmm compare");
  options.add_options("hidden")("left", "", value())("right", "", value());
  options.add_options()                                                           //
      ("max-differences", "print so many differences", value("10"), "N")          //
      ("any-order", "the order of the blocks does not matter")                    //
      ("ignore-zero-blocks", "an all-zero block equals a missing one")            //
      ("type", "elements of the files: auto, u16 or u32", value("auto"), "TYPE")  //
      ("q,quiet", "print nothing, only the exit code");
  cli::add_common_options(options);
  options.parse_positional({"left", "right"});
  return options;
}

std::string shown(const std::optional<std::uint32_t>& value) {
  return value ? text(*value) : "no block";
}

/// Says in which of n and m the headers differ; "" if they agree.
std::string header_difference(const MatrixHeader& left, const MatrixHeader& right) {
  if (left.n != right.n) return text("n differs: ", left.n, " and ", right.n);
  if (left.m != right.m) return text("m differs: ", left.m, " and ", right.m);
  return "";
}

std::string summary(const tools::Comparison& found, const std::string& left, const std::string& right) {
  std::string line = text("elements that differ: ", found.elements, "; blocks that differ: ", found.blocks,
                          ", only in ", left, ": ", found.only_in_left, ", only in ", right, ": ", found.only_in_right);
  if (found.only_zeros > 0) line += text(" (all zero: ", found.only_zeros, ")");
  return line;
}

/// "; 3 elements at the limit 4294967295 in left.bin"; "" if there is none.
std::string saturation(std::uint64_t count, const std::string& name) {
  return count == 0 ? "" : text("; ", cli::saturation_text(count), " in ", name);
}

/// The message for files of both kinds that differ: one by one the differences would be all elements.
std::string kinds(const tools::MatrixFile& left, const tools::MatrixFile& right) {
  const auto kind = [](const tools::MatrixFile& matrix) {
    return text(printable(matrix.file.name()), matrix.type == ElementType::u16 ? " is an operand (elements of 16 bits)"
                                                                               : " is a result (elements of 32 bits)");
  };
  return text(kind(left), ", ", kind(right), "\n");
}

int run(const cli::ParsedOptions& parsed) {
  const std::string left_name = cli::required_positional(parsed, "left", "left file");
  const std::string right_name = cli::required_positional(parsed, "right", "right file");
  const auto type = tools::type_option(parsed);
  const bool quiet = cli::option_flag(parsed, "quiet");
  std::uint64_t left_to_print = quiet ? 0 : *cli::option_count(parsed, "max-differences");
  const tools::MatrixFile left = tools::open_matrix(left_name, type, ElementType::u32);
  const tools::MatrixFile right = tools::open_matrix(right_name, type, ElementType::u32);
  const bool of_one_kind = left.type == right.type;
  if (!of_one_kind && parsed.count("max-differences") == 0) left_to_print = 0;
  tools::CompareOptions options{.any_order = cli::option_flag(parsed, "any-order") || !of_one_kind,
                                .ignore_zero_blocks = cli::option_flag(parsed, "ignore-zero-blocks"),
                                .on_difference = [&](const tools::Difference& d) {
                                  if (left_to_print == 0) return;
                                  --left_to_print;
                                  std::cout << text("row ", d.row, ", col ", d.col, ": left ", shown(d.left),
                                                    ", right ", shown(d.right), "\n");
                                }};

  const std::string headers = header_difference(left.file.header(), right.file.header());
  if (!headers.empty()) {
    if (!quiet) std::cout << headers << "\n";
    return cli::kNegative;
  }
  const tools::Comparison found = tools::compare_files(left, right, options);
  if (!quiet && found.same()) {
    const std::uint64_t saturated = std::max(found.saturated_left, found.saturated_right);
    std::cout << text("same: ", left.file.num_records(), " blocks",
                      saturated > 0 ? ", " + cli::saturation_text(saturated) : "", "\n");
  } else if (!quiet) {
    std::cout << text(of_one_kind ? "" : kinds(left, right),
                      printable(text(summary(found, left_name, right_name), saturation(found.saturated_left, left_name),
                                     saturation(found.saturated_right, right_name))),
                      "\n");
  }
  return found.same() ? cli::kOk : cli::kNegative;
}

}  // namespace

int spmm::tools::compare_main(int argc, char** argv) {
  const int code =
      cli::run_program({.name = "spmm-compare", .options = make_options, .notes = kNotes}, argc, argv, run);
  return code > cli::kNegative ? cli::kUsage : code;
}
