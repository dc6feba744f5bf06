// Lists whose lines transpose operands: the bytes of explicitly transposed files, and no job taken for another.
#include <nlohmann/json.hpp>
#include <string>

#include "cli/batch/batch_place.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "support/matrices.hpp"

namespace {

using namespace spmm::test;

/// One of the operands, transposed where that is asked for.
spmm::BlockMatrix operand(const std::string& path, bool is_transposed) {
  const spmm::BlockMatrix matrix = spmm::read_matrix(path);
  return is_transposed ? transposed(matrix) : matrix;
}

bool is_product(const std::string& out, bool transpose_a, bool transpose_b) {
  return spmm::read_product(out) == spmm::multiply(operand("1.bin", transpose_a), operand("2.bin", transpose_b));
}

}  // namespace

TEST_CASE("the command line transposes what a list leaves open") {
  const BatchPlace place(2);
  write_bytes("jobs.tsv", "1.bin\t2.bin\tx.bin\n1.bin\t2.bin\ty.bin\ttranspose-b=0\n");
  REQUIRE(run_batch({"jobs.tsv", "--transpose-b"}).exit_code == 0);
  CHECK(is_product("x.bin", false, true));
  CHECK(is_product("y.bin", false, false));
  write_bytes("bad.tsv", "1.bin\t2.bin\tz.bin\ttranspose-a=maybe\n");
  const ProcessResult bad = run_batch({"bad.tsv"});
  CHECK(bad.exit_code == 65);
  CHECK(bad.err.find("bad.tsv:1 transpose-a: \"maybe\" is neither on nor off") != std::string::npos);
}

TEST_CASE("a column of a list computes some block rows, and --resume knows other rows as another job") {
  const BatchPlace place(2);
  write_bytes("jobs.tsv", "1.bin\t2.bin\tc0\trows=:2\n1.bin\t2.bin\tc1\trows=2:\ttranspose-a=1\n");
  const ProcessResult result = run_batch({"jobs.tsv", "--report", "r.json"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  for (const bool is_second : {false, true}) {
    spmm::Options options;
    options.rows = is_second ? spmm::RowRange{.first = 2} : spmm::RowRange{.end = 2};
    options.transpose_a = is_second;
    spmm::multiply("1.bin", "2.bin", "expected", options);
    CHECK(bytes_of(is_second ? "c1" : "c0") == bytes_of("expected"));
    CHECK(parse_report("batch-report", bytes_of("r.json"))["jobs"][is_second]["rows"] == (is_second ? "2:" : "0:2"));
  }
  write_bytes("jobs.tsv", "1.bin\t2.bin\tc0\trows=0:3\n1.bin\t2.bin\tc1\trows=2:\ttranspose-a=1\n");
  CHECK(run_batch({"jobs.tsv", "--resume", "--dry-run"}).out.find("c0\trows=0:3\n") != std::string::npos);
  REQUIRE(run_batch({"jobs.tsv", "--resume", "--report", "r.json"}).exit_code == 0);
  CHECK(parse_report("batch-report", bytes_of("r.json"))["totals"]["done_before"] == 1);
  write_bytes("bad.tsv", "1.bin\t2.bin\tz\trows=3\n");
  const ProcessResult bad = run_batch({"bad.tsv"});
  CHECK(bad.exit_code == 65);
  CHECK(bad.err.find("bad.tsv:1 rows: \"3\" is not a range of block rows") != std::string::npos);
}
