// spmm-gen: writes a random block-sparse matrix.
#include <chrono>
#include <iostream>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/run_length.hpp"
#include "cli/self_description.hpp"
#include "io/formats/format.hpp"
#include "tools/gen/generate.hpp"
#include "tools/gen/pattern.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;

constexpr const char* kNotes = R"(
Examples:
  spmm-gen a.bin --n 8192 --m 8 --k 100000 --seed 1
  spmm-gen b.bin --n 8192 --m 8 --k 100e3 --seed 2 --order sorted
  spmm-gen narrow.bin --n 65536 --m 4 --k 1e6 --max-value 255 --pattern banded --bandwidth 64
  spmm-gen skewed.bin --n 1048576 --m 8 --k 1e6 --pattern power-law --zero-blocks 0.1
  spmm-gen poisson.bin --n 1000000 --m 1 --k 26463592 --pattern stencil-27
  spmm-gen graph.bin --n 65536 --m 1 --k 1e6 --pattern rmat

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
  stencil-7, stencil-27  nodes of a cubic grid, numbered line by line, and their 6 or 26 neighbours
  rmat          a graph by recursive quadrants with the parameters of Graph500 (0.57, 0.19, 0.19, 0.05), numbers not
                permuted: its long rows meet its long columns; repeated draws count once
  block-diagonal  square groups of --group block rows along the diagonal
  arrow         the first block row, the first block column and the diagonal
  saddle-point  [[K, B^T], [B, 0]]: K is a 7-point stencil over three quarters of the block rows, each row of B has at
                most 8 blocks

All k blocks lie at different places; the error for a larger --k says how many the pattern has. The same options give the
same bytes on every machine and for every number of threads; --order changes the order of the records, not the blocks.
Give A and B different seeds. The file appears under its name when it is complete.

Exit codes: 0 written, 2 usage (also: the blocks do not fit), 71 memory, 73 cannot create the file, 74 writing failed,
75 interrupted (nothing was written).
)";

int run(const cli::ParsedOptions& parsed) {
  const tools::GenJob job = tools::parse_gen_options(parsed);
  const MatrixHeader& header = job.generate.header;
  cli::check_space_for_file(job.out, io::file_bytes_of(ElementType::u16, header));
  const auto pattern = tools::make_pattern(job.kind, header.blocks_per_side(), header.num_blocks, job.shape);

  const auto start = std::chrono::steady_clock::now();
  tools::generate_file(job.out, pattern, job.generate);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!job.quiet) {
    std::cout << text(printable(job.out), ": n ", header.n, ", m ", header.m, ", ", header.num_blocks, " blocks (",
                      tools::pattern_name(job.kind), ", seed ", job.generate.seed, "), ",
                      human_bytes(io::file_bytes_of(ElementType::u16, header)), " in ", seconds.count(), " s\n");
  }
  return cli::kOk;
}

}  // namespace

int spmm::tools::gen_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-gen", .options = tools::make_gen_options, .notes = kNotes}, argc, argv, run);
}
