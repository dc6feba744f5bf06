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
inline constexpr std::uint64_t kNoRecord = std::numeric_limits<std::uint64_t>::max();

/// Lowers a number to `value` if that is less. Threads: any.
inline void lower_to(std::atomic<std::uint64_t>& number, std::uint64_t value) {
  for (std::uint64_t known = number; value < known && !number.compare_exchange_weak(known, value);) {
  }
}

/// Calls visit(record, block index) for all records, from several threads.
/// Memory: read_bytes per thread. Errors: FormatError for the first record whose index is out of range; Interrupted;
/// what the source throws.
template <class Visit>
void for_indices(const Source& source, const Run& run, const Visit& visit, std::uint64_t read_bytes = kReadBytes) {
  constexpr std::uint64_t kReadsPerPiece = 16;  // one buffer serves that many
  const auto timing = run.clock.scope(Stage::read);
  const std::uint64_t nb = source.header().blocks_per_side();
  const std::uint64_t bytes = input_record_bytes(source.header().m);
  const std::uint64_t most = std::max<std::uint64_t>(1, read_bytes / bytes);  // records of one read
  std::atomic<std::uint64_t> first_bad = kNoRecord;
  run.parallel_for(source.header().num_blocks, most * kReadsPerPiece, [&](std::uint64_t begin, std::uint64_t end) {
    const AlignedArray<std::byte> raw(std::min(most, end - begin) * bytes);
    for (std::uint64_t first = begin; first < end; first += most) {
      run.check_cancelled();
      const std::uint64_t count = std::min(most, end - first);
      source.read(first, count, raw.data());
      for (std::uint64_t x = 0; x < count; ++x) {
        const BlockIndex at = read_index(raw.data() + x * bytes);
        if (at.i >= nb || at.j >= nb) return lower_to(first_bad, first + x);
        visit(first + x, at);
      }
    }
  });
  if (first_bad == kNoRecord) return;
  const AlignedArray<std::byte> raw(bytes);
  source.read(first_bad, 1, raw.data());
  throw_index_out_of_range(source, first_bad, read_index(raw.data()));
}

}  // namespace spmm::out_of_core
