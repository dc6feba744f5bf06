// A source that transposes what it reads.
#include "io/memory/transposed_source.hpp"

#include <algorithm>

#include "io/memory/transpose_records.hpp"
#include "spmm/io.hpp"

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

std::optional<SourceIdentity> TransposedSource::identity() const {
  std::optional<SourceIdentity> identity = plain_.identity();
  if (identity) identity->is_transposed = !identity->is_transposed;
  return identity;
}

std::unique_ptr<Source> open_operand(const std::filesystem::path& path, bool is_transposed) {
  std::unique_ptr<Source> plain = open_file_source(path);
  if (!is_transposed) return plain;
  return std::make_unique<TransposedSource>(std::move(plain));
}

}  // namespace spmm::io
