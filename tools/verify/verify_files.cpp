// Proves that one file is the product of two others.
#include "tools/verify/verify_files.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "io/factor_source.hpp"
#include "io/files/input_file.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "tools/common/matrix_file.hpp"
#include "verify/proof.hpp"

namespace spmm::tools {
namespace {

constexpr const char* kProgram = "spmm-verify";

/// Takes records of C on their way to the proof. Errors: FormatError.
void check_records(const io::InputFile& c, std::uint64_t first, std::span<const std::byte> records, RowRange rows,
                   Proof& proof) {
  const std::uint64_t bytes = c.record_bytes();
  for (std::uint64_t r = 0; r < records.size() / bytes; ++r) {
    const BlockIndex at = read_index(&records[r * bytes]);
    check_index(c, first + r, at);
    if (at.i >= rows.first && at.i < rows.end) continue;
    throw FormatError(at_record(c.name(), first + r, bytes),
                      text("block (", at.i, ", ", at.j, ") lies outside the block rows ", rows.first, ":", rows.end),
                      "give --rows as it was given to spmm");
  }
  const auto flaw = proof.look(records);
  if (!flaw) return;
  throw FormatError(at_record(c.name(), first + flaw->record, bytes),
                    text("block (", flaw->at.i, ", ", flaw->at.j, ") is all zero, expected only blocks that are not"),
                    "give --allow-zero-blocks for files of other programs");
}

}  // namespace

ProofResult verify_files(const std::filesystem::path& a, const std::filesystem::path& b, const std::filesystem::path& c,
                         const VerifyFilesOptions& options, const Run& run) {
  const io::InputFile file_a(a, ElementType::u16);
  const io::InputFile file_b(b, ElementType::u16);
  const io::InputFile file(c, ElementType::u32);
  for (const io::InputFile* other : {&file_b, &file}) {
    check_same_shape(file_a.name(), file_a.header(), other->name(), other->header(),
                     "give two matrices and their product");
  }
  check_blocks(file_a, kProgram);
  check_blocks(file_b, kProgram);
  if (options.any_order) check_blocks(file, kProgram);
  const std::uint32_t nb = file.header().blocks_per_side();
  const RowRange rows = checked_rows(options.product.rows, nb);
  const bool is_whole_a = rows.covers(nb) && !options.product.transpose_a;
  const auto factor_a = is_whole_a ? nullptr : io::make_factor_source(file_a, options.product.transpose_a, rows, run);
  const auto factor_b = options.product.transpose_b ? io::make_factor_source(file_b, true, {}, run) : nullptr;
  const Source& left = factor_a ? *factor_a : static_cast<const Source&>(file_a);
  const Source& right = factor_b ? *factor_b : static_cast<const Source&>(file_b);
  constexpr std::uint64_t kLeastBytes = 64u << 10;  // for operands
  const std::uint64_t fixed = Proof::resident_bytes(left.header(), 0, options.product.selection) +
                              Proof::finish_bytes(left.header(), right.header());
  if (options.memory_limit_bytes != 0 && fixed + kLeastBytes > options.memory_limit_bytes) {
    throw OutOfMemory("--memory-limit",
                      text("the proof needs ", human_bytes(fixed + kLeastBytes), " at least, the limit is ",
                           human_bytes(options.memory_limit_bytes)),
                      "raise --memory-limit");
  }
  Proof proof(left, right,
              {.key = options.key,
               .memory_bytes = options.memory_limit_bytes == 0 ? 0 : options.memory_limit_bytes - fixed,
               .limit_bytes = options.memory_limit_bytes,
               .rows = rows,
               .allow_zero_blocks = options.allow_zero_blocks,
               .selection = options.product.selection,
               .on_notice = options.on_notice},
              run);

  const std::uint64_t bytes = file.record_bytes();
  RecordOrder order(bytes);
  const auto check_order = [&](const std::optional<RecordFlaw>& flaw) {
    if (!flaw) return;
    check_ascends(file, flaw->record, flaw->before, flaw->at, "give --any-order for files of other programs");
  };
  const std::uint64_t per_read = std::max<std::uint64_t>(1, (std::uint64_t{1} << 20) / bytes);
  run.parallel_for(file.num_records(), per_read, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    const AlignedArray<std::byte> raw((end - begin) * bytes);
    file.read(begin, end - begin, raw.data());
    const std::span<const std::byte> records(raw.data(), raw.size());
    if (!options.any_order) check_order(order.add(begin, records));
    check_records(file, begin, records, rows, proof);
  });
  check_order(order.close());
  file.check_unchanged();

  const FindRow find_row = [&](std::uint32_t row, const std::function<void(BlockIndex, const std::byte*)>& take) {
    for_each_record(file, kProgram, [&](std::uint64_t, BlockIndex at, const std::byte* record) {
      if (at.i == row) take(at, record + kIndexBytes);
    });
    return true;
  };
  ProofResult result = proof.finish(find_row, run);
  file_a.check_unchanged();
  file_b.check_unchanged();
  return result;
}

}  // namespace spmm::tools
