// One pass over the block indices of a matrix.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/run/run.hpp"
#include "spmm/stream.hpp"

namespace spmm::out_of_core {

/// Bytes of one read while records are picked.
inline constexpr std::uint64_t kReadBytes = 256u << 10;

/// Errors: always FormatError.
[[noreturn]] inline void throw_bad_index(const Source& source, std::uint64_t record) {
  const AlignedArray<std::byte> raw(input_record_bytes(source.header().m));
  source.read(record, 1, raw.data());
  throw_index_out_of_range(source, record, read_index(raw.data()));
}

/// Calls visit(first record, records, their number) for runs of records, from several threads.
/// Memory: `read_bytes` per thread. Errors: Interrupted; what the source throws.
template <class Visit>
void for_reads(const Source& source, const Run& run, const Visit& visit, std::uint64_t read_bytes = kReadBytes) {
  constexpr std::uint64_t kReadsPerPiece = 16;  // one buffer serves that many
  const auto timing = run.clock.scope(Stage::read);
  const std::uint64_t bytes = input_record_bytes(source.header().m);
  const std::uint64_t most = std::max<std::uint64_t>(1, read_bytes / bytes);  // records of one read
  run.parallel_for(source.header().num_blocks, most * kReadsPerPiece, [&](std::uint64_t begin, std::uint64_t end) {
    const AlignedArray<std::byte> raw(std::min(most, end - begin) * bytes);
    for (std::uint64_t r = begin; r < end; r += most) {
      run.check_cancelled();
      const std::uint64_t count = std::min(most, end - r);
      source.read(r, count, raw.data());
      visit(r, raw.data(), count);
    }
  });
}

/// Calls visit(record, block index) for all records, from several threads. Memory: as above. Errors: FormatError for
/// the first record whose index is out of range; as above.
template <class Visit>
void for_indices(const Source& source, const Run& run, const Visit& visit, std::uint64_t read_bytes = kReadBytes) {
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t nb = source.header().blocks_per_side();
  const std::uint64_t bytes = input_record_bytes(source.header().m);
  std::atomic<std::uint64_t> first_bad = kNone;
  const auto visit_read = [&](std::uint64_t first, const std::byte* records, std::uint64_t count) {
    for (std::uint64_t r = first; r < first + count; ++r, records += bytes) {
      const BlockIndex at = read_index(records);
      if (at.i < nb && at.j < nb) {
        visit(r, at);
        continue;
      }
      std::uint64_t known = first_bad.load();
      while (r < known && !first_bad.compare_exchange_weak(known, r)) {
      }
      return;
    }
  };
  for_reads(source, run, visit_read, read_bytes);
  if (first_bad != kNone) throw_bad_index(source, first_bad);
}

}  // namespace spmm::out_of_core
