// Checksums of results.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "tools/bench/checksum_sink.hpp"

namespace {

using namespace spmm;

/// [[1, 0, 5, 6], [0, 2, 0, 8], [0, 0, 3, 0], [0, 0, 0, 0]], blocks out of order.
BlockMatrix sample() {
  return {.n = 4, .m = 2, .index = {{1, 1}, {0, 1}, {0, 0}}, .values = {3, 0, 0, 0, 5, 6, 0, 8, 1, 0, 0, 2}};
}

}  // namespace

TEST_CASE("checksum: the same for every cut, another for every change", "[tools][bench]") {
  BlockMatrix a = sample();
  const auto checksum_of = [&](std::size_t records_at_once) {
    const ProductMatrix c = Engine().multiply(a, a);
    tools::ChecksumSink sink(c.m, 2);
    std::vector<std::byte> records(c.index.size() * output_record_bytes(c.m));
    for (std::size_t b = 0; b < c.index.size(); ++b) {
      std::byte* const record = records.data() + b * output_record_bytes(c.m);
      std::memcpy(record, &c.index[b], sizeof(BlockIndex));
      std::memcpy(record + sizeof(BlockIndex), c.block(b), output_record_bytes(c.m) - sizeof(BlockIndex));
    }
    for (std::size_t b = 0; b < c.index.size(); b += records_at_once) {
      const std::size_t count = std::min(records_at_once, c.index.size() - b);
      int released = 0;
      sink.write(b, std::span(records).subspan(b * output_record_bytes(c.m), count * output_record_bytes(c.m)),
                 [&] { ++released; });
      CHECK(released == 1);
    }
    sink.finish(c.header());
    return sink.checksum();
  };
  const tools::ResultChecksum whole = checksum_of(100);
  CHECK(whole.num_blocks == 3);
  CHECK(checksum_of(1) == whole);
  CHECK(checksum_of(2) == whole);
  a.values[0] = 4;
  CHECK_FALSE(checksum_of(100) == whole);
  tools::ChecksumSink sink(2, 1);
  CHECK_THROWS_AS(sink.finish({.n = 4, .m = 2, .num_blocks = 1}), IoError);
}
