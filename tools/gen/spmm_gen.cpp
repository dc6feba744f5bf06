// spmm-gen: writes a random block-sparse matrix.
#include <chrono>
#include <cstdint>
#include <cxxopts.hpp>
#include <iostream>
#include <optional>
#include <string>

#include "base/parallel.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/program.hpp"
#include "io/format.hpp"
#include "spmm/error.hpp"
#include "spmm/types.hpp"
#include "tools/gen/generate.hpp"
#include "tools/gen/pattern.hpp"

namespace {

using namespace spmm;

constexpr std::uint64_t kMax32 = UINT32_MAX;
constexpr std::uint64_t kMaxThreads = 1024;

constexpr const char* kNotes = R"(
Patterns, on a grid of n/m x n/m blocks:
  uniform       anywhere
  diagonal      on the diagonal
  banded        at most --bandwidth blocks away from the diagonal; without it in the narrowest band that the blocks fill
                to at most half
  power-law     block row r, and block column r, has about 1/r of the first one's blocks (in steps of powers of two)
  heavy-row     half of the blocks in the middle block row (or all of it, if that is less), the rest anywhere else
  heavy-column  the same with the middle block column
  hub           a third of the blocks (or all of it, if that is less) in the middle block row, as many in the block
                column after the middle one, the rest anywhere else: one block of the product has very many pairs
  stencil-5     nodes of a square grid, numbered line by line, and the 4 neighbours of each
  stencil-7, stencil-27  nodes of a cubic grid and their 6 or 26 neighbours
  rmat          a graph by recursive quadrants with the parameters of Graph500 (0.57, 0.19, 0.19, 0.05), numbers not
                permuted: its long rows meet its long columns; repeated draws count once
  block-diagonal  square groups of --group block rows along the diagonal
  arrow         the first block row, the first block column and the diagonal
  saddle-point  [[K, B^T], [B, 0]]: K is a 7-point stencil over three quarters of the block rows, each row of B has at
                most 8 blocks

--k all: every place that the pattern has (not for power-law, rmat and banded without --bandwidth): a dense band, a
complete stencil, full groups.

All k blocks lie at different places. The same options give the same bytes on every machine and for every number of
threads; --order changes the order of the records, not the blocks. Give A and B different seeds. The file appears under
its name when it is complete.

Examples:
  spmm-gen a.bin --n 8192 --m 8 --k 100000 --seed 1
  spmm-gen b.bin --n 8192 --m 8 --k 100e3 --seed 2 --order sorted
  spmm-gen narrow.bin --n 65536 --m 4 --k 1e6 --max-value 255 --pattern banded --bandwidth 64
  spmm-gen skewed.bin --n 1048576 --m 8 --k 1e6 --pattern power-law --zero-blocks 0.1
  spmm-gen poisson.bin --n 1000000 --m 1 --k all --pattern stencil-27
  spmm-gen graph.bin --n 65536 --m 1 --k 1e6 --pattern rmat

Every option can also be given as an environment variable: SPMM_MAX_VALUE for --max-value.
Exit codes: 0 written, 2 usage (also: the blocks do not fit), 71 memory, 73 cannot create the file, 74 writing failed,
75 interrupted (nothing was written).
)";

cxxopts::Options make_options() {
  const auto value = [] { return cxxopts::value<std::string>(); };
  cxxopts::Options options("spmm-gen", "Writes a random block-sparse matrix (16-bit elements).\n");
  options.positional_help("OUT").custom_help("--n N --m M --k K [options]").set_width(100);
  options.add_options("hidden")("out", "", value());
  options.add_options()                                                                             //
      ("n", "side of the matrix in elements, a multiple of m", value(), "N")                        //
      ("m", "side of a block, 1 to 64", value(), "M")                                               //
      ("k", "number of blocks, or all", value(), "K")                                               //
      ("seed", "which of the random matrices", value()->default_value("1"), "S")                    //
      ("max-value", "elements are uniform from 0 to this", value()->default_value("2047"), "V")     //
      ("pattern", "where the blocks lie, see below", value()->default_value("uniform"), "NAME")     //
      ("bandwidth", "banded: blocks on each side of the diagonal", value(), "W")                    //
      ("group", "block-diagonal: block rows of a group (default: 64)", value(), "G")                //
      ("zero-blocks", "share of blocks that are all zero", value()->default_value("0"), "0..1")     //
      ("order", "of the records: shuffled or sorted", value()->default_value("shuffled"), "ORDER")  //
      ("threads", "threads (default: all cores)", value(), "T")                                     //
      ("q,quiet", "print nothing on success")                                                       //
      ("h,help", "print this help");
  options.parse_positional({"out"});
  return options;
}

std::uint32_t required_count(const cxxopts::ParseResult& parsed, const std::string& option, std::uint64_t low,
                             std::uint64_t high) {
  const auto value = cli::option_count(parsed, option, low, high);
  if (!value) throw UsageError("--" + option, "is missing", "give --n, --m and --k; spmm-gen --help shows examples");
  return static_cast<std::uint32_t>(*value);
}

/// Side and block side; the number of blocks follows.
MatrixHeader header_of(const cxxopts::ParseResult& parsed) {
  const MatrixHeader header{.n = required_count(parsed, "n", 1, kMax32),
                            .m = required_count(parsed, "m", 1, kMaxBlockDim)};
  if (header.n % header.m == 0) return header;
  const std::uint64_t below = header.n - header.n % header.m;
  throw UsageError("--n", text(header.n, " is not a multiple of m = ", header.m),
                   below == 0 ? text("give ", header.m) : text("give ", below, " or ", below + header.m));
}

tools::PatternKind pattern_of(const cxxopts::ParseResult& parsed) {
  const auto kind = static_cast<tools::PatternKind>(cli::option_choice(parsed, "pattern", tools::pattern_names()));
  if (cli::option_text(parsed, "bandwidth") && kind != tools::PatternKind::banded) {
    throw UsageError("--bandwidth", "only the banded pattern has a bandwidth", "add --pattern banded or leave it out");
  }
  if (cli::option_text(parsed, "group") && kind != tools::PatternKind::block_diagonal) {
    throw UsageError("--group", "only the block-diagonal pattern has groups",
                     "add --pattern block-diagonal or leave it out");
  }
  return kind;
}

/// The number of blocks; "all" = every place of the pattern.
std::uint32_t num_blocks_of(const cxxopts::ParseResult& parsed, tools::PatternKind kind, std::uint32_t nb,
                            const tools::PatternOptions& options) {
  const auto given = cli::option_text(parsed, "k");
  if (!given || given->value != "all") return required_count(parsed, "k", 0, kMax32);
  const auto places = tools::num_places(kind, nb, options);
  if (!places) {
    throw UsageError(given->where,
                     text("the places of this ", tools::pattern_name(kind), " pattern depend on the number of blocks"),
                     "give a number, or --bandwidth with --pattern banded");
  }
  if (*places <= kMax32) return static_cast<std::uint32_t>(*places);
  throw UsageError(given->where, text("the pattern has ", *places, " places, a file at most ", kMax32, " blocks"),
                   "give a number or a smaller --n");
}

int run(int argc, char** argv) {
  cxxopts::Options options = make_options();
  const auto parsed = cli::parse_strictly(options, argc, argv);
  if (parsed.count("help") > 0) {
    std::cout << options.help({""}) << kNotes;
    return cli::kOk;
  }
  const std::string out = cli::required_positional(parsed, "out", "output file");
  MatrixHeader header = header_of(parsed);
  const tools::PatternKind kind = pattern_of(parsed);
  const tools::PatternOptions shape{.bandwidth = cli::option_count(parsed, "bandwidth", 0, kMax32),
                                    .group = cli::option_count(parsed, "group", 1, kMax32),
                                    .seed = *cli::option_count(parsed, "seed")};
  header.num_blocks = num_blocks_of(parsed, kind, header.blocks_per_side(), shape);
  const auto pattern = tools::make_pattern(kind, header.blocks_per_side(), header.num_blocks, shape);
  const auto zero_blocks = *cli::option_text(parsed, "zero-blocks");
  const tools::GenerateOptions generate{
      .header = header,
      .seed = shape.seed,
      .max_value = static_cast<std::uint32_t>(*cli::option_count(parsed, "max-value", 0, UINT16_MAX)),
      .zero_blocks = cli::parse_fraction(zero_blocks.value, zero_blocks.where),
      .sorted = cli::option_choice(parsed, "order", {"shuffled", "sorted"}) == 1,
      .num_threads =
          static_cast<unsigned>(cli::option_count(parsed, "threads", 1, kMaxThreads).value_or(usable_cores())),
  };
  const bool quiet = cli::option_flag(parsed, "quiet");

  const auto start = std::chrono::steady_clock::now();
  tools::generate_file(out, pattern, generate);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!quiet) {
    std::cout << text(out, ": n ", header.n, ", m ", header.m, ", ", header.num_blocks, " blocks (",
                      tools::pattern_name(kind), ", seed ", generate.seed, "), ",
                      human_bytes(io::file_bytes_of(ElementType::u16, header)), " in ", seconds.count(), " s\n");
  }
  return cli::kOk;
}

}  // namespace

int main(int argc, char** argv) {
  cli::install_signal_handlers();
  return cli::run_program("spmm-gen", [&] { return run(argc, argv); });
}
