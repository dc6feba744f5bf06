// A source that transposes what it reads.
#include "io/memory/transposed_source.hpp"

#include <algorithm>

#include "io/memory/transpose_records.hpp"

namespace spmm::io {
namespace {

constexpr std::uint64_t kTransposedBytes = 256u << 10;  // read at a time: still in the cache when it is transposed

}  // namespace

void TransposedSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  const std::uint32_t m = header().m;
  const std::uint64_t bytes = input_record_bytes(m);
  const std::uint64_t per_piece = std::max<std::uint64_t>(1, kTransposedBytes / bytes);
  while (count != 0) {
    const std::uint64_t here = std::min(count, per_piece);
    plain_.read(first, here, dst);
    transpose_records(dst, here, m);
    first += here;
    count -= here;
    dst += here * bytes;
  }
}

}  // namespace spmm::io
