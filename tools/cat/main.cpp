// spmm-cat: joins results of ascending block rows into one file.
#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options.hpp"
#include "cli/program.hpp"
#include "cli/run_length.hpp"
#include "io/files/file_sink.hpp"
#include "io/files/paths.hpp"
#include "io/formats/foreign_format.hpp"
#include "spmm/error.hpp"
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

int run(const cli::ParsedOptions& parsed) {
  std::vector<std::string> names = parsed.more();
  if (names.size() < 2) {
    throw UsageError("command line", names.empty() ? "no file is given" : "the output (OUT) is missing",
                     "give the files to join and then the output; --help shows examples");
  }
  const std::string out = names.back();
  names.pop_back();
  cli::check_dash(out, "output", cli::Dash::refused_output);
  io::reject_foreign_ending(out);
  std::vector<MatrixHeader> headers;
  std::uint64_t num_blocks = 0;
  for (const std::string& name : names) {
    check_output_is_no_input(name, out);
    const MatrixHeader header = headers.emplace_back(read_header(name, ElementType::u32));
    num_blocks += header.num_blocks;
    tools::check_same_shape(names.front(), headers.front(), name, header, "join results of one product");
  }
  if (num_blocks > max_output_blocks()) {
    throw OutOfMemory("output",
                      text("the files have ", num_blocks, " blocks, a result holds at most ", max_output_blocks()),
                      "keep them as several files, or use larger blocks");
  }
  MatrixHeader whole = headers.front();
  whole.num_blocks = static_cast<std::uint32_t>(num_blocks);
  cli::check_space_for_file(out, kHeaderBytes + num_blocks * output_record_bytes(whole.m));
  const FileSinkOptions how{.durable = cli::option_flag(parsed, "durable"),
                            .no_clobber = cli::option_flag(parsed, "no-clobber")};
  const std::unique_ptr<Sink> sink = io::open_tuned_file_sink(out, whole.m, how, {.num_writers = 0});
  BlockIndex last;
  std::uint64_t num_before = 0;
  for (std::size_t f = 0; f < names.size(); ++f) {
    const io::InputFile file(names[f], ElementType::u32);
    if (file.header() != headers[f]) throw_changed_content(file.name());
    tools::for_each_piece(file, "spmm-cat", [&](std::uint64_t record, std::span<const std::byte> records) {
      const std::uint64_t first = record;
      for (std::uint64_t at_byte = 0; at_byte < records.size(); at_byte += file.record_bytes(), ++record) {
        const BlockIndex at = read_index(&records[at_byte]);
        tools::check_index(file, record, at);
        if (record != 0) {
          tools::check_ascends(file, record, last, at, "multiply again: the file was changed, or is no result");
        } else if (num_before != 0 && at.i <= last.i) {
          throw FormatError(at_record(file.name(), 0, file.record_bytes()),
                            text("block (", at.i, ", ", at.j, ") follows (", last.i, ", ", last.j,
                                 ") of the file before, expected a later block row"),
                            "give the files in the order of their block rows; each row is in one file");
        }
        last = at;
      }
      sink->write(num_before + first, records, {});  // it has no writer threads: written when it returns
    });
    file.check_unchanged();
    num_before += file.num_records();
  }
  sink->finish(whole);
  sink->publish();
  if (!cli::option_flag(parsed, "quiet")) {
    std::cout << text(names.size(), names.size() == 1 ? " file, " : " files, ", num_blocks, " blocks\n");
  }
  return cli::kOk;
}

}  // namespace

int spmm::tools::cat_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-cat", .options = make_options, .notes = kNotes}, argc, argv, run);
}
