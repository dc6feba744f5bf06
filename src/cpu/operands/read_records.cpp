#include "cpu/operands/read_records.hpp"

#include <algorithm>
#include <cstring>

#include "base/run/parallel.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

constexpr std::uint64_t kChunkBytes = 2u << 20;

}  // namespace

AlignedArray<std::byte> read_records(const Source& source, Progress& progress, const Run& run, std::byte* heads) {
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const auto timing = run.clock.scope(Stage::read);
  AlignedArray<std::byte> raw(header.num_blocks * record);
  const std::uint64_t chunk_records = std::max<std::uint64_t>(1, kChunkBytes / record);
  run.parallel_for(header.num_blocks, chunk_records, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    const auto piece = run.clock.worker_scope(Stage::read, {.bytes = (end - begin) * record});
    source.read(begin, end - begin, raw.data() + begin * record);
    for (std::uint64_t r = begin; heads != nullptr && r < end; ++r) {
      std::memcpy(heads + r * kIndexBytes, raw.data() + r * record, kIndexBytes);
    }
    progress.add((end - begin) * record);
  });
  run.clock.add_bytes(Stage::read, raw.size());
  return raw;
}

}  // namespace spmm::cpu
