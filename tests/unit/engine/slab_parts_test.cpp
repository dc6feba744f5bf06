// A result in parts of operands that go in slabs: parts are cut by what is expected of rows, before any is multiplied.
#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/oracle.hpp"
#include "support/process.hpp"

using namespace spmm;

TEST_CASE("slabs: a result in parts is that of the oracle, and no part is much larger than its share") {
  const test::TemporaryFolder folder;
  const BlockMatrix a = test::random_matrix(8 * 1500, 8, 9000, 65535, 41);
  const BlockMatrix b = test::random_matrix(8 * 1500, 8, 9000, 65535, 42);
  write_matrix(folder.file("a"), a);
  write_matrix(folder.file("b"), b);
  const ProductMatrix expected = test::oracle_multiply(a, b);
  ProductOptions options;
  options.backend = Backend::cpu;
  options.kernel = "row-merge";
  options.num_parts = 3;
  Report report;
  std::uint64_t limit = 1'000'000;
  for (bool fits = false; !fits; limit += 200'000) {
    REQUIRE(limit < 8'000'000);
    Engine engine({.num_threads = 2, .memory_limit_bytes = limit});
    try {
      report = engine.multiply(folder.file("a"), folder.file("b"), folder.file("c"), options);
      fits = true;
    } catch (const OutOfMemory&) {
    }
  }
  CHECK(report.plan.num_a_slabs * report.plan.num_b_slabs > 1);
  CHECK((read_product(folder.file("c")) == expected));
  REQUIRE(report.parts.size() == 3);
  for (const ResultPart& part : report.parts) {
    CHECK(part.num_blocks > expected.index.size() / 3 * 9 / 10);
    CHECK(part.num_blocks < expected.index.size() / 3 * 11 / 10);
  }
}
