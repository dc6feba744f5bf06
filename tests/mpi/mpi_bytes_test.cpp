// Any number of ranks writes the bytes of spmm.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "mpi/mpi_place.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/oracle.hpp"
#include "support/stress_case.hpp"

namespace {

using namespace spmm::test;
using Words = std::vector<std::string>;

/// Runs one product, whose bytes must be those of spmm; returns its report.
nlohmann::json report_of(int num_ranks, Words options) {
  options.insert(options.end(), {"-q", "--backend", "cpu", "--report", "report.json", "x.bin", "y.bin", "z.bin"});
  const ProcessResult result = run_ranks(num_ranks, options);
  INFO(num_ranks << " ranks: " << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(bytes_of("z.bin") == bytes_of("expected.bin"));
  CHECK(names_in(".", {"x.bin", "y.bin", "z.bin", "expected.bin", "report.json"}).empty());
  return nlohmann::json::parse(bytes_of("report.json"));
}

}  // namespace

TEST_CASE("random products on 2 to 7 ranks have the bytes of one process, also proven and within little memory") {
  for (const int num_ranks : {2, 3, 7, 4}) {
    const MpiPlace place;
    ProductList products;
    for (std::uint64_t x = 0; x < 12; ++x) {
      const auto [a, b] = random_operands(100 * static_cast<std::uint64_t>(num_ranks) + x);
      const ProductList::How operands = products.add_operands(a, b);
      products.add(operands, {});
      products.add(operands, {"verify=full"});
      products.add(operands, {"limit=4000000"});
    }
    products.run(num_ranks);
  }
}

TEST_CASE("ranks share the pairs evenly, and say what each did") {
  const MpiPlace place;
  place.set_operands(random_matrix(4096, 4, 20000, 65535, 21), random_matrix(4096, 4, 20000, 65535, 22));
  const auto report = report_of(4, {});
  const auto pairs = report["pairs"].get<std::uint64_t>();
  std::uint64_t sum = 0;
  std::uint32_t row = 0;
  REQUIRE(report["ranks"].size() == 4);
  for (const auto& rank : report["ranks"]) {
    CHECK(rank["pairs"].get<std::uint64_t>() < pairs / 4 + pairs / 20);
    CHECK(rank["rows"]["first"] == row);
    CHECK(rank["runs"] == 1);
    row = rank["rows"]["end"];
    sum += rank["pairs"].get<std::uint64_t>();
  }
  CHECK(sum == pairs);
  CHECK(row == 1024);
}

TEST_CASE("a tenth of the operands as memory limit") {
  const MpiPlace place;
  place.set_operands(random_matrix(16384, 8, 40000, 65535, 21), random_matrix(16384, 8, 40000, 65535, 22));
  const auto report = report_of(3, {"--memory-limit", "1M", "--threads", "1"});  // of 2 * 5.4 MB
  CHECK(report["plan"]["scratch_bytes"].get<std::uint64_t>() > 0);
  for (const auto& rank : report["ranks"]) CHECK(rank["runs"] == 2);  // the indices do not fit
}

TEST_CASE("--verify proves rows on every rank; the output may be a device") {
  const MpiPlace place;
  place.set_operands(random_matrix(1024, 4, 2000, 65535, 51), random_matrix(1024, 4, 2000, 65535, 52));
  CHECK(report_of(2, {"--verify", "20", "--durable"})["verified_blocks"].get<std::uint64_t>() > 40);
  const ProcessResult device =
      run_ranks(3, {"-q", "--backend", "cpu", "--report", "report.json", "x.bin", "y.bin", "/dev/null"});
  CHECK(device.exit_code == 0);
  CHECK(nlohmann::json::parse(bytes_of("report.json"))["c"]["blocks"] ==
        spmm::read_product("expected.bin").index.size());
}

TEST_CASE("elements at the limit are counted once, or are an error that names the first of them") {
  for (const std::uint32_t first_row : {0u, 50u}) {  // of 64: where the first rank has none, too
    const MpiPlace place;
    const spmm::BlockMatrix b = random_matrix(256, 4, 2000, 65535, 1);
    spmm::BlockMatrix a = b;
    for (std::size_t block = 0; block < a.index.size(); ++block) {
      const auto values = a.values.begin() + static_cast<std::ptrdiff_t>(block * 16);
      if (a.index[block].i < first_row) std::fill_n(values, 16, std::uint16_t{1});
    }
    place.set_operands(a, b);
    const std::uint64_t expected = num_saturated(oracle_multiply(a, b));
    REQUIRE(expected > 0);
    CHECK(report_of(3, {})["saturated_elements"] == expected);
    std::filesystem::remove("z.bin");
    const Words words = {"--on-saturation", "error", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
    const ProcessResult refused = run_ranks(3, words);
    CHECK(refused.exit_code == 76);
    CHECK(refused.err.find("z.bin: " + std::to_string(expected) + " elements are at the limit") != std::string::npos);
    const std::string first = run_ranks(1, words).err;
    const std::size_t where = first.find(", the first at row ");
    REQUIRE(where != std::string::npos);
    CHECK(refused.err.find(first.substr(where, first.find(';', where) - where)) != std::string::npos);
    CHECK(names_in(".", {"x.bin", "y.bin", "expected.bin", "report.json"}).empty());
  }
}

TEST_CASE("ranks share the block rows of a range, and transpose what they read") {
  const MpiPlace place;
  spmm::write_matrix("x.bin", random_matrix(60 * 8, 8, 900, 65535, 1));
  spmm::write_matrix("y.bin", random_matrix(60 * 8, 8, 700, 65535, 2));
  for (const bool transposes : {false, true}) {
    spmm::Options options;
    options.backend = spmm::Backend::cpu;
    options.rows = {.first = 10, .end = 45};
    options.transpose_a = options.transpose_b = transposes;
    spmm::multiply("x.bin", "y.bin", "expected.bin", options);
    for (const int num_ranks : {1, 3}) {
      Words words = {"--rows", "10:45", "--verify", "5"};
      if (transposes) words.insert(words.end(), {"--transpose-a", "--transpose-b"});
      const auto report = report_of(num_ranks, words);
      CHECK(report["plan"]["rows"]["first"] == 10);
      CHECK(report["plan"]["rows"]["end"] == 45);
      CHECK(report["a"]["transposed"] == transposes);
      CHECK(report["b"]["transposed"] == transposes);
    }
  }
  const ProcessResult refused = run_ranks(2, {"--rows", "10:61", "x.bin", "y.bin", "z.bin"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("10:61 leaves the product, which has 60 block rows") != std::string::npos);
}
