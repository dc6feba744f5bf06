// spmm-cat: joins results of ascending block rows into one file.
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/free_space.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "io/files/file_sink.hpp"
#include "io/files/input_file.hpp"
#include "io/files/paths.hpp"
#include "io/formats/foreign_format.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;

constexpr const char* kNotes = R"(
Examples:
  spmm --rows 0:1000 a.bin b.bin c0
  spmm --rows 1000:2000 a.bin b.bin c1
  spmm-cat c0 c1 c.bin

Each file is a result (32-bit elements) of the same n and m. Its blocks ascend, and its block rows come after those of the
file before it. Files without blocks may be anywhere. All this is checked. OUT appears when it is complete.

Exit codes: 0 done, 2 usage, 65 malformed file, or files that do not follow each other, 66 a file cannot be opened,
71 more blocks than one file holds, 73 cannot create OUT, 74 reading or writing failed, 75 interrupted (nothing was
written).
)";

cli::OptionTable make_options() {
  cli::OptionTable options("spmm-cat", "Joins results of ascending block rows into one file.\n");
  options.usage("[options] C0 [C1 ...] OUT", "spmm cat");
  options.add_options()                                        //
      ("no-clobber", "refuse to replace an existing file")     //
      ("durable", "wait until OUT would survive a power cut")  //
      ("q,quiet", "print nothing on success");
  cli::add_common_options(options);
  options.takes_more();
  return options;
}

/// The header of the whole. Errors: ShapeError (files of different n or m); OutOfMemory (too many blocks).
MatrixHeader whole_header(const std::vector<std::string>& files, const std::vector<MatrixHeader>& headers) {
  const MatrixHeader& first = headers.front();
  std::uint64_t num_blocks = 0;
  for (std::size_t f = 0; f < files.size(); ++f) {
    const MatrixHeader& header = headers[f];
    num_blocks += header.num_blocks;
    if (header.n == first.n && header.m == first.m) continue;
    throw ShapeError(
        text(files.front(), " and ", files[f]),
        text("header (byte offset 0): n = ", first.n, ", m = ", first.m, " against n = ", header.n, ", m = ", header.m),
        "join results of one product");
  }
  if (num_blocks > max_output_blocks()) {
    throw OutOfMemory("output",
                      text("the files have ", num_blocks, " blocks, a result holds at most ", max_output_blocks()),
                      "keep them as several files, or use larger blocks");
  }
  return {.n = first.n, .m = first.m, .num_blocks = static_cast<std::uint32_t>(num_blocks)};
}

/// The block that was read last, and the file that it came from.
struct LastBlock {
  BlockIndex at;
  std::string file;
};

/// Errors: FormatError if a block does not follow the one before it.
void check_order(const io::InputFile& file, std::uint64_t first, std::span<const std::byte> records,
                 std::optional<LastBlock>& last) {
  const std::uint64_t bytes = file.record_bytes();
  const std::uint32_t nb = file.header().blocks_per_side();
  for (std::uint64_t r = 0; r < records.size() / bytes; ++r) {
    const BlockIndex at = read_index(records.data() + r * bytes);
    if (at.i >= nb || at.j >= nb) throw_index_out_of_range(file.name(), first + r, bytes, at, nb);
    const bool is_other_file = first + r == 0;
    if (last && (is_other_file ? at.i <= last->at.i : !(last->at < at))) {
      throw FormatError(at_record(file.name(), first + r, bytes),
                        text("block (", at.i, ", ", at.j, ") follows (", last->at.i, ", ", last->at.j, ")",
                             is_other_file ? " of " + last->file : "", ", expected ",
                             is_other_file ? "a later block row" : "blocks in the order of (i, j)"),
                        is_other_file ? "give the files in the order of their block rows; each row is in one file"
                                      : "multiply again: the file was changed, or is no result");
    }
    if (is_other_file) last.emplace().file = file.name();
    last->at = at;
  }
}

/// Copies the records of a file, whose header was read before, behind num_before others. Errors: FormatError; what
/// files throw.
void append_file(const std::string& path, const MatrixHeader& header, std::uint64_t num_before,
                 std::optional<LastBlock>& last, Sink& sink) {
  const io::InputFile file(path, ElementType::u32);
  if (file.header() != header) throw_changed_content(file.name());
  file.expect_sequential_reads();
  const std::uint64_t per_read = tools::records_per_read(file.record_bytes());
  std::vector<std::byte> buffer(per_read * file.record_bytes());
  for (std::uint64_t first = 0; first < header.num_blocks; first += per_read) {
    cli::check_cancelled("spmm-cat");
    const std::uint64_t count = std::min<std::uint64_t>(per_read, header.num_blocks - first);
    const std::span<std::byte> records(buffer.data(), count * file.record_bytes());
    file.read_records(first, count, records.data());
    check_order(file, first, records, last);
    sink.write(num_before + first, records, {});  // it has no writer threads: written when it returns
  }
  file.check_unchanged();
}

int run(const cli::ParsedOptions& parsed) {
  std::vector<std::string> files = parsed.more();
  if (files.size() < 2) {
    throw UsageError("command line", files.empty() ? "no file is given" : "the output (OUT) is missing",
                     "give the files to join and then the output; --help shows examples");
  }
  const std::string out = files.back();
  files.pop_back();
  if (out == "-") {
    throw UsageError("command line", "the output is -, but standard output will not do: the header is written last",
                     "name a file (/dev/shm/c.bin, then cat it), or give ./- for a file of that name");
  }
  io::reject_foreign_ending(out);
  std::vector<MatrixHeader> headers;
  for (const std::string& file : files) {
    check_output_is_no_input(file, out);
    headers.push_back(read_header(file, ElementType::u32));
  }
  const MatrixHeader whole = whole_header(files, headers);
  cli::check_space_for_file(out, kHeaderBytes + whole.num_blocks * output_record_bytes(whole.m));
  const FileSinkOptions how{.durable = cli::option_flag(parsed, "durable"),
                            .no_clobber = cli::option_flag(parsed, "no-clobber")};
  const std::unique_ptr<Sink> sink = io::open_tuned_file_sink(out, whole.m, how, {.num_writers = 0});
  std::optional<LastBlock> last;
  std::uint64_t num_before = 0;
  for (std::size_t f = 0; f < files.size(); ++f) {
    append_file(files[f], headers[f], num_before, last, *sink);
    num_before += headers[f].num_blocks;
  }
  sink->finish(whole);
  sink->publish();
  if (!cli::option_flag(parsed, "quiet")) {
    std::cout << text(files.size(), files.size() == 1 ? " file, " : " files, ", whole.num_blocks, " blocks\n");
  }
  return cli::kOk;
}

}  // namespace

int spmm::tools::cat_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-cat", .options = make_options, .notes = kNotes}, argc, argv, run);
}
