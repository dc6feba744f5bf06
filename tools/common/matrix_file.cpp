// Matrix files read front to back.
#include "tools/common/matrix_file.hpp"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {

MatrixFile open_matrix(const std::filesystem::path& path, std::optional<ElementType> type, ElementType likely) {
  if (type) return {.file = io::InputFile(path, *type), .type = *type};
  std::exception_ptr complaint;
  for (const ElementType guess : {ElementType::u16, ElementType::u32}) {
    try {
      return {.file = io::InputFile(path, guess), .type = guess};
    } catch (const FormatError&) {
      if (guess == likely) complaint = std::current_exception();
    }
  }
  std::rethrow_exception(complaint);
}

std::optional<ElementType> type_option(const cli::ParsedOptions& parsed) {
  constexpr std::optional<ElementType> kTypes[] = {std::nullopt, ElementType::u16, ElementType::u32};
  return kTypes[cli::option_choice(parsed, "type", {"auto", "u16", "u32"})];
}

std::uint64_t records_per_read(std::uint64_t record) {
  return std::max<std::uint64_t>(1, (std::uint64_t{4} << 20) / record);
}

void for_each_piece(const io::InputFile& file, const char* program,
                    const std::function<void(std::uint64_t first, std::span<const std::byte> records)>& take) {
  const std::uint64_t per_read = records_per_read(file.record_bytes());
  std::vector<std::byte> buffer;
  for (std::uint64_t first = 0; first < file.num_records(); first += per_read) {
    cli::check_cancelled(program);
    const std::uint64_t count = std::min(per_read, file.num_records() - first);
    buffer.resize(count * file.record_bytes());
    file.read(first, count, buffer.data());
    take(first, buffer);
  }
}

void check_index(const io::InputFile& file, std::uint64_t record, BlockIndex at) {
  const std::uint32_t nb = file.header().blocks_per_side();
  if (at.i >= nb || at.j >= nb) throw_index_out_of_range(file, record, at);
}

void check_ascends(const io::InputFile& file, std::uint64_t record, BlockIndex before, BlockIndex at,
                   const char* hint) {
  if (before < at) return;
  if (before == at) throw_duplicate_block(file, record - 1, record, at);
  throw FormatError(at_record(file.name(), record, file.record_bytes()),
                    text("block (", at.i, ", ", at.j, ") follows (", before.i, ", ", before.j,
                         "), expected blocks in the order of (i, j)"),
                    hint);
}

void check_same_shape(const std::string& first_name, const MatrixHeader& first, const std::string& second_name,
                      const MatrixHeader& second, const char* hint) {
  if (first.n == second.n && first.m == second.m) return;
  throw ShapeError(
      text(first_name, " and ", second_name),
      text("header (byte offset 0): n = ", first.n, ", m = ", first.m, " against n = ", second.n, ", m = ", second.m),
      hint);
}

void check_blocks(const io::InputFile& file, const char* program) {
  const auto key_of = [](BlockIndex at) { return std::uint64_t{at.i} << 32 | at.j; };
  const std::uint64_t nb = file.header().blocks_per_side();
  const std::uint64_t num_words = (nb * nb + 63) / 64;
  const bool has_bits = num_words <= file.num_records();
  std::vector<std::uint64_t> seen(has_bits ? num_words : 0);  // a bit for each place, else keys
  std::optional<std::uint64_t> twice;
  for_each_record(file, program, [&](std::uint64_t, BlockIndex at, const std::byte*) {
    if (!has_bits) {
      seen.push_back(key_of(at));
      return;
    }
    const std::uint64_t place = at.i * nb + at.j;
    const std::uint64_t bit = std::uint64_t{1} << place % 64;
    if ((seen[place / 64] & bit) != 0 && !twice) twice = key_of(at);
    seen[place / 64] |= bit;
  });
  if (!has_bits) {
    std::sort(seen.begin(), seen.end());
    const auto found = std::adjacent_find(seen.begin(), seen.end());
    if (found != seen.end()) twice = *found;
  }
  if (!twice) return;
  std::optional<std::uint64_t> first;
  for_each_record(file, program, [&](std::uint64_t record, BlockIndex at, const std::byte*) {
    if (key_of(at) != *twice) return;
    if (first) throw_duplicate_block(file, *first, record, at);
    first = record;
  });
}

}  // namespace spmm::tools
