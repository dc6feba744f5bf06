#include "cpu/read_records.hpp"

#include <algorithm>

#include "base/parallel.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kChunkBytes = 2u << 20;

}  // namespace

AlignedArray<std::byte> read_records(const Source& source, unsigned num_threads, Progress& progress,
                                     const RunContext& context) {
  const auto timing = context.clock.scope(Stage::read);
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  AlignedArray<std::byte> raw(header.num_blocks * record);
  const std::uint64_t chunk_records = std::max<std::uint64_t>(1, kChunkBytes / record);
  parallel_for(num_threads, header.num_blocks, chunk_records, [&](std::uint64_t begin, std::uint64_t end) {
    context.check_cancelled();
    source.read(begin, end - begin, raw.data() + begin * record);
    progress.add((end - begin) * record);
  });
  context.clock.add_bytes(Stage::read, raw.size());
  return raw;
}

}  // namespace spmm::cpu
