// Transposed operands on several ranks: the bytes of explicitly transposed files, by rows and by the inner dimension.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mpi/mpi_place.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"

namespace {

using namespace spmm::test;

}  // namespace

TEST_CASE("ranks transpose what they read, and what they send") {
  const MpiPlace place;
  const spmm::BlockMatrix a = random_matrix(60 * 8, 8, 500, 65535, 1);
  const spmm::BlockMatrix b = random_matrix(60 * 8, 8, 400, 65535, 2);
  place.set_operands(transposed(a), transposed(b));  // expected.bin is the product of these
  spmm::write_matrix("a.bin", a);
  spmm::write_matrix("b.bin", b);
  for (const char* division : {"rows", "inner"}) {
    for (const char* records : {"", "sent"}) {
      INFO(division << " " << records);
      const ProcessResult result = run_ranks(3,
                                             {"-q", "--backend", "cpu", "--transpose-a", "--transpose-b", "--verify",
                                              "5", "--report", "r.json", "a.bin", "b.bin", "z.bin"},
                                             {{"SPMM_MPI_DIVISION", division}, {"SPMM_MPI_RECORDS", records}});
      INFO(result.err);
      REQUIRE(result.exit_code == 0);
      CHECK(content_of("z.bin") == content_of("expected.bin"));
      const auto report = parse_report("report", content_of("r.json"));
      CHECK(report["a"]["transposed"] == true);
      CHECK(report["b"]["transposed"] == true);
    }
  }
  REQUIRE(run_ranks(1, {"-q", "--transpose-a", "--transpose-b", "a.bin", "b.bin", "z.bin"}).exit_code == 0);
  CHECK(content_of("z.bin") == content_of("expected.bin"));
}

TEST_CASE("one file on both sides, and messages about the file as it is") {
  const MpiPlace place;
  const spmm::BlockMatrix a = random_matrix(40 * 4, 4, 300, 65535, 1);
  place.set_operands(transposed(a), a);
  spmm::write_matrix("a.bin", a);
  REQUIRE(run_ranks(2, {"-q", "--transpose-a", "a.bin", "a.bin", "z.bin"}).exit_code == 0);
  CHECK(content_of("z.bin") == content_of("expected.bin"));

  spmm::BlockMatrix bad = a;
  bad.index[7] = {.i = 2, .j = 40};
  spmm::write_matrix("bad.bin", bad);
  bad.index[7] = bad.index[200] = {.i = 2, .j = 39};
  spmm::write_matrix("twice.bin", bad);
  for (const char* records : {"", "sent"}) {
    const Variables variables = {{"SPMM_MPI_RECORDS", records}};
    const ProcessResult outside = run_ranks(2, {"-q", "--transpose-a", "bad.bin", "a.bin", "z.bin"}, variables);
    CHECK(outside.exit_code == 65);
    CHECK(outside.err.find("bad.bin, record 7 (") != std::string::npos);
    CHECK(outside.err.find("block index (2, 40)") != std::string::npos);
    const ProcessResult twice = run_ranks(2, {"-q", "--transpose-b", "a.bin", "twice.bin", "z.bin"}, variables);
    CHECK(twice.exit_code == 65);
    CHECK(twice.err.find("twice.bin, record 200 (") != std::string::npos);
    CHECK(twice.err.find("block (2, 39) was stored before in record 7 ") != std::string::npos);
  }
}
