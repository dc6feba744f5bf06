// The command line of spmm-gen.
#include "tools/gen/gen_options.hpp"

#include <cstdint>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "io/formats/foreign_format.hpp"
#include "spmm/error.hpp"
#include "spmm/types.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMax32 = UINT32_MAX;
constexpr std::uint64_t kMaxThreads = 1024;

std::uint32_t required_count(const cli::ParsedOptions& parsed, const std::string& option, std::uint64_t low,
                             std::uint64_t high) {
  const auto value = cli::option_count(parsed, option, low, high);
  if (!value) throw UsageError("--" + option, "is missing", "give --n, --m and --k; spmm-gen --help shows examples");
  return static_cast<std::uint32_t>(*value);
}

/// Side and block side; the number of blocks follows.
MatrixHeader header_of(const cli::ParsedOptions& parsed) {
  const MatrixHeader header{.n = required_count(parsed, "n", 1, kMax32),
                            .m = required_count(parsed, "m", 1, kMaxBlockDim)};
  if (header.n % header.m == 0) return header;
  const std::uint64_t below = header.n - header.n % header.m;
  throw UsageError("--n", text(header.n, " is not a multiple of m = ", header.m),
                   below == 0 ? text("give ", header.m) : text("give ", below, " or ", below + header.m));
}

PatternKind pattern_of(const cli::ParsedOptions& parsed) {
  const auto kind = static_cast<PatternKind>(cli::option_choice(parsed, "pattern", pattern_names()));
  if (cli::option_text(parsed, "bandwidth") && kind != PatternKind::banded) {
    throw UsageError("--bandwidth", "only the banded pattern has a bandwidth", "add --pattern banded or leave it out");
  }
  if (cli::option_text(parsed, "group") && kind != PatternKind::block_diagonal) {
    throw UsageError("--group", "only the block-diagonal pattern has groups",
                     "add --pattern block-diagonal or leave it out");
  }
  return kind;
}

/// The number of blocks; "all" = every place of the pattern.
std::uint32_t num_blocks_of(const cli::ParsedOptions& parsed, PatternKind kind, std::uint32_t nb,
                            const PatternOptions& options) {
  const auto given = cli::option_text(parsed, "k");
  if (!given || given->value != "all") return required_count(parsed, "k", 0, kMax32);
  const auto places = num_places(kind, nb, options);
  if (!places) {
    throw UsageError(given->where,
                     text("the places of this ", pattern_name(kind), " pattern depend on the number of blocks"),
                     "give a number, or --bandwidth with --pattern banded");
  }
  if (*places <= kMax32) return static_cast<std::uint32_t>(*places);
  throw UsageError(given->where, text("the pattern has ", *places, " places, a file at most ", kMax32, " blocks"),
                   "give a number or a smaller --n");
}

}  // namespace

cli::OptionTable make_gen_options() {
  using cli::value;
  cli::OptionTable options("spmm-gen", "Writes a random block-sparse matrix (16-bit elements).\n");
  options.usage("--n N --m M --k K [options] OUT", "spmm gen");
  options.add_options("hidden")("out", "", value());
  options.add_options()                                                               //
      ("n", "side of the matrix in elements, a multiple of m", value(), "N")          //
      ("m", "side of a block, 1 to 64", value(), "M")                                 //
      ("k", "number of blocks, or all", value(), "K")                                 //
      ("seed", "which of the random matrices", value("1"), "S")                       //
      ("max-value", "elements are uniform from 0 to this", value("2047"), "V")        //
      ("pattern", "where the blocks lie, see below", value("uniform"), "NAME")        //
      ("bandwidth", "banded: blocks on each side of the diagonal", value(), "W")      //
      ("group", "block-diagonal: block rows of a group (default: 64)", value(), "G")  //
      ("zero-blocks", "share of blocks that are all zero", value("0"), "0..1")        //
      ("order", "of the records: shuffled or sorted", value("shuffled"), "ORDER")     //
      ("threads", "threads (default: all cores)", value(), "T")                       //
      ("q,quiet", "print nothing on success");
  cli::add_common_options(options);
  options.parse_positional({"out"});
  return options;
}

GenJob parse_gen_options(const cli::ParsedOptions& parsed) {
  GenJob job;
  job.out = cli::required_positional(parsed, "out", "output file", cli::Dash::refused_output);
  io::reject_foreign_ending(job.out);
  MatrixHeader header = header_of(parsed);
  job.kind = pattern_of(parsed);
  job.shape = {.bandwidth = cli::option_count(parsed, "bandwidth", 0, kMax32),
               .group = cli::option_count(parsed, "group", 1, kMax32),
               .seed = *cli::option_count(parsed, "seed")};
  header.num_blocks = num_blocks_of(parsed, job.kind, header.blocks_per_side(), job.shape);
  const std::uint64_t places = std::uint64_t{header.blocks_per_side()} * header.blocks_per_side();
  if (header.num_blocks > places) {
    throw UsageError("--k", text(header.num_blocks, " blocks are more than the ", places, " places of the matrix"),
                     text("give at most ", places, ", or a larger --n or a smaller --m"));
  }
  const auto zero_blocks = *cli::option_text(parsed, "zero-blocks");
  job.generate = {
      .header = header,
      .seed = job.shape.seed,
      .max_value = static_cast<std::uint32_t>(*cli::option_count(parsed, "max-value", 0, UINT16_MAX)),
      .zero_blocks = cli::parse_fraction(zero_blocks.value, zero_blocks.where),
      .sorted = cli::option_choice(parsed, "order", {"shuffled", "sorted"}) == 1,
      .num_threads =
          static_cast<unsigned>(cli::option_count(parsed, "threads", 1, kMaxThreads).value_or(usable_cores())),
  };
  job.quiet = cli::option_flag(parsed, "quiet");
  return job;
}

}  // namespace spmm::tools
