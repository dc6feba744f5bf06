// Records read piece by piece, their indices checked.
#include "base/run/pieces.hpp"

#include <algorithm>
#include <array>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "base/records/head.hpp"

namespace spmm {

void for_pieces(const Source& source, std::uint64_t memory_bytes, const Run& run,
                const std::function<void(const std::byte* records, std::uint64_t count, std::uint64_t first)>& body) {
  constexpr std::uint64_t kReadBytes = 1u << 20;
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const std::uint64_t bytes = memory_bytes == 0 ? kReadBytes : std::min(kReadBytes, memory_bytes / 8 / run.num_threads);
  run.parallel_for(header.num_blocks, std::max<std::uint64_t>(1, bytes / record),
                   [&](std::uint64_t begin, std::uint64_t end) {
                     run.check_cancelled();
                     const AlignedArray<std::byte> records((end - begin) * record);
                     source.read(begin, end - begin, records.data());
                     for (std::uint64_t x = 0; x < end - begin; ++x) {
                       const BlockIndex at = read_index(records.data() + x * record);
                       if (at.i < header.blocks_per_side() && at.j < header.blocks_per_side()) continue;
                       throw_index_out_of_range(source, begin + x, at);
                     }
                     body(records.data(), end - begin, begin);
                   });
}

void throw_stored_twice(const Source& source, BlockIndex block, const Run& run) {
  constexpr std::uint64_t kReadBytes = 64u << 10;
  const std::uint64_t record = input_record_bytes(source.header().m);
  const std::uint64_t num_records = source.header().num_blocks;
  const std::uint64_t at_once = std::max<std::uint64_t>(1, kReadBytes / record);
  const AlignedArray<std::byte> records(at_once * record);
  std::array<std::uint64_t, 2> numbers = {0, 0};
  std::size_t found = 0;
  for (std::uint64_t first = 0; first < num_records && found < numbers.size(); first += at_once) {
    run.check_cancelled();
    const std::uint64_t count = std::min(at_once, num_records - first);
    source.read(first, count, records.data());
    for (std::uint64_t r = 0; r < count && found < numbers.size(); ++r) {
      if (read_index(records.data() + r * record) == block) numbers[found++] = first + r;
    }
  }
  if (found < numbers.size()) throw_changed_content(source.name());
  throw_duplicate_block(source, numbers[0], numbers[1], block);
}

}  // namespace spmm
