// spmm-gen: writes a random block-sparse matrix, record by record from its number.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <iostream>
#include <memory>
#include <span>

#include "base/records/head.hpp"
#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/program.hpp"
#include "cli/run_length.hpp"
#include "io/files/output_file.hpp"
#include "io/formats/foreign_format.hpp"
#include "io/formats/format.hpp"
#include "spmm/error.hpp"
#include "tools/common/options.hpp"
#include "tools/common/random.hpp"
#include "tools/gen/gen.hpp"
#include "tools/spmm/subcommands.hpp"

namespace spmm::tools {
namespace {

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

constexpr std::uint64_t kWriteBytes = std::uint64_t{4} << 20;  // records of one write
constexpr std::uint64_t kSlotGrain = std::uint64_t{1} << 16;   // slots that one thread computes at a time

/// What a random number is for: each use has its own sequence.
enum Use : std::uint64_t { kOrder, kValues, kPart };

/// The blocks of the matrix: slot 0 .. k - 1 -> position i * nb + j -> record.
class Blocks {
 public:
  Blocks(const std::vector<Part>& pattern, const GenerateOptions& options)
      : options_(options),
        nb_(options.header.blocks_per_side()),
        elements_(std::uint64_t{options.header.m} * options.header.m),
        values_key_(random_at(options.seed, kValues)),
        zero_below_(static_cast<std::uint64_t>(options.zero_blocks * 0x1p53)) {
    std::uint64_t first = 0;
    for (std::size_t p = 0; p < pattern.size(); ++p) {
      const std::uint64_t size = std::max<std::uint64_t>(pattern[p].capacity, 1);
      placed_.push_back(
          {.part = &pattern[p], .first_slot = first, .rank_of = Permutation(size, random_at(options.seed, kPart + p))});
      first += pattern[p].count;
    }
  }

  [[nodiscard]] std::uint64_t position(BlockIndex at) const { return at.i * nb_ + at.j; }

  [[nodiscard]] BlockIndex index(std::uint64_t position) const {
    return {.i = static_cast<std::uint32_t>(position / nb_), .j = static_cast<std::uint32_t>(position % nb_)};
  }

  [[nodiscard]] BlockIndex index_of_slot(std::uint64_t slot) const {
    std::size_t p = 0;
    while (slot - placed_[p].first_slot >= placed_[p].part->count) ++p;
    return placed_[p].part->cell(placed_[p].rank_of(slot - placed_[p].first_slot));
  }

  /// Writes one record. Shapes: dst [input_record_bytes(m)].
  void put_record(std::byte* dst, BlockIndex at) const {
    write_index(dst, at);
    dst += kIndexBytes;
    const std::uint64_t key = random_at(values_key_, position(at));
    if (mix(key) >> 11 < zero_below_) {
      std::memset(dst, 0, elements_ * 2);
      return;
    }
    const std::uint64_t range = std::uint64_t{options_.max_value} + 1;
    for (std::uint64_t e = 0; e < elements_; e += 2) {
      const std::uint64_t bits = random_at(key, e);
      const std::uint16_t pair[2] = {static_cast<std::uint16_t>((bits >> 32) * range >> 32),
                                     static_cast<std::uint16_t>((bits & 0xFFFF'FFFFu) * range >> 32)};
      std::memcpy(dst + e * 2, pair, e + 1 < elements_ ? 4 : 2);
    }
  }

 private:
  struct Placed {
    const Part* part;
    std::uint64_t first_slot;
    Permutation rank_of;
  };

  const GenerateOptions& options_;
  std::uint64_t nb_;
  std::uint64_t elements_;
  std::uint64_t values_key_;
  std::uint64_t zero_below_;
  std::vector<Placed> placed_;
};

/// Positions of all blocks, ascending. They are not filled before: that would take seconds in which no signal counts.
std::unique_ptr<std::uint64_t[]> sorted_positions(const Blocks& blocks, const GenerateOptions& options) {
  const std::uint64_t k = options.header.num_blocks;
  auto positions = std::make_unique_for_overwrite<std::uint64_t[]>(k);
  parallel_for(options.num_threads, k, kSlotGrain, [&](std::uint64_t begin, std::uint64_t end) {
    cli::check_cancelled("spmm-gen");
    for (std::uint64_t slot = begin; slot < end; ++slot) {
      positions[slot] = blocks.position(blocks.index_of_slot(slot));
    }
  });
  std::sort(positions.get(), positions.get() + k);
  return positions;
}

// ---- the command line

constexpr std::uint64_t kMax32 = UINT32_MAX;

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

int run(const cli::ParsedOptions& parsed) {
  const GenJob job = parse_gen_options(parsed);
  const MatrixHeader& header = job.generate.header;
  const std::uint64_t bytes = io::file_bytes_of(ElementType::u16, header);
  cli::check_space_for_file(job.out, bytes);
  const auto start = std::chrono::steady_clock::now();
  generate_file(job.out, make_pattern(job.pattern, header.blocks_per_side(), header.num_blocks, job.shape),
                job.generate);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!job.quiet) {
    std::cout << text(printable(job.out), ": n ", header.n, ", m ", header.m, ", ", header.num_blocks, " blocks (",
                      job.pattern, ", seed ", job.generate.seed, "), ", human_bytes(bytes), " in ", seconds.count(),
                      " s\n");
  }
  return cli::kOk;
}

}  // namespace

void generate_file(const std::filesystem::path& path, const std::vector<Part>& pattern,
                   const GenerateOptions& options) {
  io::OutputFile file(path, {});
  file.expect_bytes(io::file_bytes_of(ElementType::u16, options.header));
  const Blocks blocks(pattern, options);
  const std::uint64_t k = options.header.num_blocks;
  const auto positions = options.sorted ? sorted_positions(blocks, options) : nullptr;
  const Permutation order(std::max<std::uint64_t>(k, 1), random_at(options.seed, kOrder));
  const std::uint64_t record = input_record_bytes(options.header.m);
  parallel_for(options.num_threads, k, std::max<std::uint64_t>(1, kWriteBytes / record),
               [&](std::uint64_t begin, std::uint64_t end) {
                 const std::uint64_t per_write = std::clamp<std::uint64_t>(kWriteBytes / record, 1, end - begin);
                 std::vector<std::byte> buffer(per_write * record);
                 for (std::uint64_t first = begin; first < end; first += per_write) {
                   cli::check_cancelled("spmm-gen");
                   const std::uint64_t here = std::min(per_write, end - first);
                   for (std::uint64_t r = 0; r < here; ++r) {
                     blocks.put_record(buffer.data() + r * record, options.sorted
                                                                       ? blocks.index(positions[first + r])
                                                                       : blocks.index_of_slot(order(first + r)));
                   }
                   file.write_at(kHeaderBytes + first * record, std::span(buffer).first(here * record));
                 }
               });
  file.finish(options.header);
  file.publish();
}

cli::OptionTable make_gen_options() {
  using cli::value;
  cli::OptionTable options("spmm-gen", "Writes a random block-sparse matrix (16-bit elements).\n");
  options.usage("--n N --m M --k K [options] OUT", "spmm gen");
  options.add_options("hidden")("out", "", value());
  options.add_options()                                                               //
      ("n", "side of the matrix in elements, a multiple of m", value(), "N")          //
      ("m", "side of a block, 1 to 64", value(), "M")                                 //
      ("k", "number of blocks", value(), "K")                                         //
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
  const std::vector<std::string> names = pattern_names();
  job.pattern = names[cli::option_choice(parsed, "pattern", names)];
  job.shape = {.bandwidth = cli::option_count(parsed, "bandwidth", 0, kMax32),
               .group = cli::option_count(parsed, "group", 1, kMax32),
               .seed = *cli::option_count(parsed, "seed")};
  if (job.shape.bandwidth && job.pattern != "banded") {
    throw UsageError("--bandwidth", "only the banded pattern has a bandwidth", "add --pattern banded or leave it out");
  }
  if (job.shape.group && job.pattern != "block-diagonal") {
    throw UsageError("--group", "only the block-diagonal pattern has groups",
                     "add --pattern block-diagonal or leave it out");
  }
  header.num_blocks = required_count(parsed, "k", 0, kMax32);
  job.generate = {.header = header,
                  .seed = job.shape.seed,
                  .max_value = static_cast<std::uint32_t>(*cli::option_count(parsed, "max-value", 0, UINT16_MAX)),
                  .zero_blocks = *option_number(parsed, "zero-blocks", 0, 1),
                  .sorted = cli::option_choice(parsed, "order", {"shuffled", "sorted"}) == 1,
                  .num_threads = option_threads(parsed)};
  job.quiet = cli::option_flag(parsed, "quiet");
  return job;
}

int gen_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-gen", .options = make_gen_options, .notes = kNotes}, argc, argv, run);
}

}  // namespace spmm::tools
