// The parts of spmm-cusparse that need no library: elements in compressed rows, work in a process of its own;
// checksums.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "tools/bench/checksum_sink.hpp"
#include "tools/cusparse/child_lines.hpp"
#include "tools/cusparse/csr_matrix.hpp"

namespace {

using namespace spmm;

/// [[1, 0, 5, 6], [0, 2, 0, 8], [0, 0, 3, 0], [0, 0, 0, 0]], blocks out of order.
BlockMatrix sample() {
  return {.n = 4, .m = 2, .index = {{1, 1}, {0, 1}, {0, 0}}, .values = {3, 0, 0, 0, 5, 6, 0, 8, 1, 0, 0, 2}};
}

}  // namespace

TEST_CASE("csr: elements in order, zeros left out", "[tools][cusparse]") {
  const tools::CsrMatrix csr = tools::to_csr(sample(), 2);
  CHECK(csr.offsets == std::vector<std::int32_t>{0, 3, 5, 6, 6});
  CHECK(csr.columns == std::vector<std::int32_t>{0, 2, 3, 1, 3, 2});
  CHECK(csr.values == std::vector<std::uint16_t>{1, 5, 6, 2, 8, 3});
  CHECK(tools::count_products(csr, csr) == 3 + 1 + 0 + 2 + 0 + 1);
  const tools::CsrMatrix empty = tools::to_csr({.n = 6, .m = 3, .index = {}, .values = {}}, 1);
  CHECK(empty.num_entries() == 0);
  CHECK(empty.offsets.size() == 7);
}

TEST_CASE("child: its lines arrive, and why it ended", "[tools][cusparse]") {
  std::vector<std::string> lines;
  const auto run = [&](double patience_s, const std::function<void(const tools::SendLine&)>& child) {
    lines.clear();
    return tools::run_child(patience_s, child, [&](const std::string& line) { lines.push_back(line); });
  };
  CHECK(run(60, [](const tools::SendLine& send) {
          send("one");
          send(std::string(100'000, 'x'));
        }).empty());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "one");
  CHECK(lines[1].size() == 100'000);
  CHECK(run(60, [](const tools::SendLine& send) {
          send("before");
          throw std::runtime_error("no\nmemory");
        }) == "no memory");
  CHECK(lines == std::vector<std::string>{"before"});
  CHECK(run(60, [](const tools::SendLine&) { ::raise(SIGKILL); }) == "signal 9");
  CHECK(run(0.2, [](const tools::SendLine&) {
          for (;;) ::pause();
        }) == "no word for 0.2 s");
}

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
      sink.append(std::span(records).subspan(b * output_record_bytes(c.m), count * output_record_bytes(c.m)),
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
