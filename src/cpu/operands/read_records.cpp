#include "cpu/operands/read_records.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kPieceBytes = 2u << 20;
constexpr std::uint64_t kPieceRecords = 1u << 16;

/// Calls take(first, count, records) for pieces of all records. Shapes: raw [all records], or null: they are not kept.
template <class Take>
void read_pieces(const Source& source, std::byte* raw, Progress& progress, const Run& run, const Take& take) {
  const std::uint64_t record = input_record_bytes(source.header().m);
  const std::uint64_t num_records = source.header().num_blocks;
  const auto timing = run.clock.scope(Stage::read);
  const auto read_piece = [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    const auto piece = run.clock.worker_scope(Stage::read, {.bytes = (end - begin) * record});
    const AlignedArray<std::byte> own(raw == nullptr ? (end - begin) * record : 0);
    std::byte* const to = raw == nullptr ? own.data() : raw + begin * record;
    source.read(begin, end - begin, to);
    take(begin, end - begin, to);
    progress.add((end - begin) * record);
  };
  run.parallel_for(num_records, std::clamp<std::uint64_t>(kPieceBytes / record, 1, kPieceRecords), read_piece);
  run.clock.add_bytes(Stage::read, num_records * record);
}

}  // namespace

AlignedArray<std::byte> read_records(const Source& source, Progress& progress, const Run& run) {
  AlignedArray<std::byte> raw(source.header().num_blocks * input_record_bytes(source.header().m));
  read_pieces(source, raw.data(), progress, run, [](std::uint64_t, std::uint64_t, const std::byte*) {});
  return raw;
}

IndexedRecords read_indexed_records(const Source& source, Progress& progress, const Run& run) {
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const bool keeps_records = header.m != 1;
  IndexedRecords out;
  out.heads = AlignedArray<std::uint64_t>(header.num_blocks);
  out.raw = AlignedArray<std::byte>(keeps_records ? header.num_blocks * record : 0);
  out.elements = AlignedArray<std::uint16_t>(keeps_records ? 0 : header.num_blocks);
  static_assert(kIndexBytes == sizeof(std::uint64_t));
  std::mutex mutex;
  out.first_row = header.blocks_per_side();
  const auto take = [&](std::uint64_t first, std::uint64_t count, const std::byte* from) {
    std::uint64_t* const heads = out.heads.data() + first;
    std::uint32_t first_row = ~0u;
    std::uint32_t last_row = 0;
    for (std::uint64_t r = 0; r < count; ++r) {
      std::memcpy(heads + r, from + r * record, kIndexBytes);
      const auto row = static_cast<std::uint32_t>(heads[r]);
      first_row = std::min(first_row, row);
      last_row = std::max(last_row, row);
    }
    {
      const std::lock_guard lock(mutex);
      out.first_row = std::min(out.first_row, first_row);
      out.last_row = std::max(out.last_row, last_row);
    }
    if (keeps_records) return;
    std::uint16_t* const elements = out.elements.data() + first;
    for (std::uint64_t r = 0; r < count; ++r) {
      std::memcpy(elements + r, from + r * record + kIndexBytes, sizeof *elements);
    }
  };
  read_pieces(source, out.raw.data(), progress, run, take);
  return out;
}

}  // namespace spmm::cpu
