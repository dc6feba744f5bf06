// --rows on several ranks: the bytes of one process with the same rows.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mpi/mpi_place.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"

namespace {

using namespace spmm::test;
using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("ranks share the block rows of a range") {
  const MpiPlace place;
  spmm::write_matrix("a.bin", random_matrix(60 * 8, 8, 900, 65535, 1));
  spmm::write_matrix("b.bin", random_matrix(60 * 8, 8, 700, 65535, 2));
  for (const bool transposes : {false, true}) {
    spmm::Options options;
    options.backend = spmm::Backend::cpu;
    options.rows = {.first = 10, .end = 45};
    options.transpose_a = transposes;
    spmm::multiply("a.bin", "b.bin", "expected.bin", options);
    for (const int num_ranks : {1, 3}) {
      INFO(num_ranks << " ranks" << (transposes ? ", A^T" : ""));
      Words words = {"-q", "--backend", "cpu", "--rows", "10:45", "--report", "r.json", "a.bin", "b.bin", "z.bin"};
      if (transposes) words.insert(words.begin(), "--transpose-a");
      const ProcessResult result = run_ranks(num_ranks, words);
      INFO(result.err);
      REQUIRE(result.exit_code == 0);
      CHECK(content_of("z.bin") == content_of("expected.bin"));
      CHECK(parse_report("report", content_of("r.json"))["plan"]["rows"]["end"] == 45);
    }
  }
  const ProcessResult refused = run_ranks(2, {"--rows", "10:61", "a.bin", "b.bin", "z.bin"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("10:61 leaves the product, which has 60 block rows") != std::string::npos);
}
