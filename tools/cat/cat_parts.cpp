// Makes one file of a result in parts.
#include "tools/cat/cat_parts.hpp"

#include <fcntl.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "io/files/file_sink.hpp"
#include "io/files/input_file.hpp"
#include "io/files/paths.hpp"
#include "io/formats/crc32.hpp"
#include "io/formats/format.hpp"
#include "io/formats/parts_index.hpp"
#include "spmm/error.hpp"
#include "tools/common/matrix_file.hpp"

namespace spmm::tools {
namespace {

/// Blocks ascend and lie within the block rows that the index gives the part. Values: before = the last block in front
/// of the records, changed to their last one. Errors: FormatError.
void check_places(const io::InputFile& file, const ResultPart& part, std::uint64_t first,
                  std::span<const std::byte> records, std::optional<BlockIndex>& before) {
  const std::uint64_t bytes = file.record_bytes();
  const std::uint32_t nb = file.header().blocks_per_side();
  for (std::uint64_t r = 0; r < records.size() / bytes; ++r) {
    const BlockIndex at = read_index(records.data() + r * bytes);
    if (at.i >= nb || at.j >= nb) throw_index_out_of_range(file.name(), first + r, bytes, at, nb);
    if (at.i < part.row_begin || at.i >= part.row_end) {
      throw FormatError(
          at_record(file.name(), first + r, bytes),
          text("block (", at.i, ", ", at.j, ") lies outside the block rows that the index gives the part, ",
               part.row_begin, " to ", part.row_end, " (not included)"),
          "multiply again: the index or the part was changed");
    }
    if (before && !(*before < at)) {
      throw FormatError(at_record(file.name(), first + r, bytes),
                        text("block (", at.i, ", ", at.j, ") follows (", before->i, ", ", before->j,
                             "), expected blocks in the order of (i, j)"),
                        "multiply again: the part was changed");
    }
    before = at;
  }
}

/// Reads one part, hands its records on and checks their places and its checksum.
void cat_part(const std::filesystem::path& folder, const ResultPart& part, std::vector<std::byte>& buffer, Sink* sink) {
  const io::InputFile file(folder / part.file, ElementType::u32);
  file.expect_sequential_reads();
  const std::uint64_t record = file.record_bytes();
  const std::uint64_t per_read = records_per_read(record);
  buffer.resize(per_read * record);
  std::uint32_t crc = io::crc32(0, io::encode_header(file.header()));
  std::optional<BlockIndex> before;
  for (std::uint64_t first = 0; first < file.num_records(); first += per_read) {
    cli::check_cancelled("spmm-cat");
    const std::uint64_t count = std::min(per_read, file.num_records() - first);
    const std::span<std::byte> records(buffer.data(), count * record);
    file.read_records(first, count, records.data());
    check_places(file, part, first, records, before);
    crc = io::crc32(crc, records);
    if (sink != nullptr) sink->append(records, nullptr);  // it has no writer threads: written when it returns
  }
  file.check_unchanged();
  if (crc == part.crc32) return;
  throw FormatError(file.name(), "the content does not have the checksum that the index gives (CRC-32)",
                    "the part was changed or damaged: multiply again");
}

}  // namespace

CatResult cat_parts(const std::filesystem::path& folder, const std::filesystem::path& out,
                    const FileSinkOptions& options) {
  if (!out.empty()) check_output_is_no_input(folder, out);
  const io::PartsIndex index = io::read_parts_index(folder);
  const io::InputFile whole(folder, ElementType::u32);  // all parts are there and agree with the index
  if (whole.num_records() != whole.header().num_blocks) check_num_output_blocks(whole.num_records());
  std::unique_ptr<Sink> sink;
  if (!out.empty()) sink = io::open_tuned_file_sink(out, index.m, options, {.num_writers = 0});
  std::vector<std::byte> buffer;
  for (const ResultPart& part : index.parts) cat_part(folder, part, buffer, sink.get());
  if (sink) {
    sink->finish(whole.header());
    sink->publish();
  }
  return {.num_parts = index.parts.size(), .num_blocks = index.num_blocks};
}

}  // namespace spmm::tools
