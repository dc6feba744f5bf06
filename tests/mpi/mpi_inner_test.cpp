// Ranks with parts of the inner dimension write the bytes of spmm.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "mpi/mpi_place.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm::test;
using spmm::BlockIndex;
using spmm::BlockMatrix;

const Variables kInner = {{"SPMM_MPI_DIVISION", "inner"}};

/// A^T A: `inner` inner indices, each with some blocks in few block rows of C, some in few block columns.
std::pair<BlockMatrix, BlockMatrix> gram(std::uint32_t m, std::uint32_t inner, std::uint32_t side, std::uint32_t each,
                                         std::uint16_t largest) {
  BlockMatrix a{.n = inner * m, .m = m, .index = {}, .values = {}};
  BlockMatrix b = a;
  std::mt19937 random(inner + m);
  for (std::uint32_t k = 0; k < inner; ++k) {
    for (std::uint32_t x = 0; x < each; ++x) {
      a.index.push_back({.i = (k * 5 + x * 3) % side * (inner / side), .j = k});
      b.index.push_back({.i = k, .j = (k * 7 + x * 5) % side});
    }
  }
  for (BlockMatrix* const matrix : {&a, &b}) {
    std::sort(matrix->index.begin(), matrix->index.end());
    matrix->index.erase(std::unique(matrix->index.begin(), matrix->index.end()), matrix->index.end());
    for (std::size_t e = 0; e < matrix->index.size() * m * m; ++e) {
      matrix->values.push_back(static_cast<std::uint16_t>(random() % (largest + 1u)));
    }
  }
  return {shuffled(a, 1), shuffled(b, 2)};
}

/// Runs a product whose bytes must be those of spmm; returns how it was divided.
std::string division_of_run(int num_ranks, const Variables& variables, std::vector<std::string> options = {}) {
  options.insert(options.end(), {"-q", "--backend", "cpu", "--report", "report.json", "x.bin", "y.bin", "z.bin"});
  const ProcessResult result = run_ranks(num_ranks, options, variables);
  INFO(num_ranks << " ranks: " << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(content_of("z.bin") == content_of("expected.bin"));
  CHECK(other_names({"x.bin", "y.bin", "z.bin", "expected.bin", "report.json"}).empty());
  const auto report = parse_report("report", content_of("report.json"));
  const spmm::ProductMatrix product = spmm::read_product("z.bin");
  CHECK(report["c"]["blocks"].get<std::uint64_t>() == product.index.size());
  CHECK(report["saturated_elements"] == num_saturated(product));
  std::uint64_t pairs = 0;
  for (const auto& rank : report["ranks"]) pairs += rank["pairs"].get<std::uint64_t>();
  CHECK(pairs == (num_ranks == 1 ? 0 : report["pairs"].get<std::uint64_t>()));
  return report["division"].get<std::string>();
}

}  // namespace

TEST_CASE("the whole battery in parts of the inner dimension") {
  const std::vector<std::pair<int, std::uint32_t>> shapes = {{2, 8}, {3, 4}, {7, 5}, {4, 1}};
  for (std::size_t shape = 0; shape < shapes.size(); ++shape) {
    const MpiPlace place;
    const auto [num_ranks, m] = shapes[shape];
    ProductList products;
    for (std::size_t x = shape; x < battery().size(); x += shapes.size()) {
      const auto [a, b] = battery()[x].make(m, 2);
      const ProductList::How operands = products.add_operands(a, b);
      products.add(operands, {"division=inner", "records=read"});
      products.add(operands, {"division=inner", "records=sent"});
    }
    products.run(num_ranks);
  }
}

TEST_CASE("a small result of a long inner dimension is split without being asked") {
  const MpiPlace place;
  const auto [a, b] = gram(8, 4000, 20, 6, 300);
  place.set_operands(a, b);
  REQUIRE(spmm::read_product("expected.bin") == oracle_multiply(a, b));
  CHECK(division_of_run(1, {}) == "rows");
  for (const int num_ranks : {2, 3, 4, 7}) CHECK(division_of_run(num_ranks, {}) == "inner");
  CHECK(division_of_run(2, {{"SPMM_MPI_DIVISION", "rows"}}) == "rows");
  CHECK(division_of_run(3, {{"SPMM_MPI_MESSAGE_BYTES", "1000"}}) == "inner");
}

TEST_CASE("one block row of C is shared by all ranks") {
  const MpiPlace place;
  const auto [a, b] = gram(4, 3000, 1, 1, 65535);
  place.set_operands(a, b);
  REQUIRE(spmm::read_product("expected.bin") == oracle_multiply(a, b));
  CHECK(division_of_run(4, {}) == "inner");
  const auto report = parse_report("report", content_of("report.json"));
  for (const auto& rank : report["ranks"]) {
    CHECK(rank["pairs"].get<std::uint64_t>() > 3000 / 4 - 20);
    CHECK(rank["pairs"].get<std::uint64_t>() < 3000 / 4 + 20);
  }
}

TEST_CASE("sums that saturate only where all ranks' parts come together") {
  const MpiPlace place;
  ProductList products;
  // 65,535^2 = 2^32 - 131,071, so that two inner indices pass 2^32 - 1; with 32,768^2 = 2^30, the fourth does.
  for (const int num_ranks : {2, 7}) {
    for (const std::uint16_t value : {std::uint16_t{65535}, std::uint16_t{32768}, std::uint16_t{32767}}) {
      for (const std::uint32_t inner : {1u, 2u, 3u, 4u, 5u, 7u}) {
        BlockMatrix a{.n = 16, .m = 1, .index = {}, .values = {}};
        for (std::uint32_t k = 0; k < inner; ++k) a.index.push_back({.i = 3, .j = 2 * k});
        BlockMatrix b = a;
        for (BlockIndex& at : b.index) std::swap(at.i, at.j);
        a.values.assign(inner, value);
        b.values.assign(inner, value);
        const ProductList::How operands = products.add_operands(a, b);
        REQUIRE(spmm::read_product(operands.back().substr(std::string("expected=").size())) == oracle_multiply(a, b));
        products.add(operands, {"division=inner"});
      }
    }
    products.run(num_ranks);
  }
}

TEST_CASE("elements at the limit are counted once, on ranks with rows and with partial products, or are an error") {
  const MpiPlace place;
  const auto [a, b] = gram(4, 40, 4, 2, 65535);
  const std::uint64_t expected = num_saturated(oracle_multiply(a, b));
  REQUIRE(expected > 0);
  spmm::write_matrix("a.bin", a);
  spmm::write_matrix("b.bin", b);
  for (const char* const division : {"rows", "inner"}) {
    INFO(division);
    const Variables variables = {{"SPMM_MPI_DIVISION", division}};
    std::vector<std::string> words = {"--backend", "cpu", "--report", "r.json", "a.bin", "b.bin", "c.bin"};
    const ProcessResult counted = run_ranks(2, words, variables);
    INFO(counted.err);
    REQUIRE(counted.exit_code == 0);
    CHECK(parse_report("report", content_of("r.json"))["saturated_elements"] == expected);
    CHECK(counted.out.find(" at the limit 4294967295") != std::string::npos);
    std::filesystem::remove("c.bin");
    words.insert(words.begin(), {"--on-saturation", "error"});
    const ProcessResult refused = run_ranks(2, words, variables);
    CHECK(refused.exit_code == 76);
    CHECK(refused.err.find("c.bin: " + std::to_string(expected) + " elements are at the limit") != std::string::npos);
    CHECK(other_names({"a.bin", "b.bin", "r.json"}).empty());
  }
}

TEST_CASE("a zero block is left out only where all parts are zero") {
  const MpiPlace place;
  // Inner indices 0 to 5: (0, 0) zero in all of them, (0, 1) in all but the first, (0, 2) in all but the last.
  BlockMatrix a{.n = 8, .m = 1, .index = {}, .values = {}};
  BlockMatrix b = a;
  for (std::uint32_t k = 0; k < 6; ++k) {
    a.index.push_back({.i = 0, .j = k});
    a.values.push_back(7);
    for (std::uint32_t j = 0; j < 3; ++j) b.index.push_back({.i = k, .j = j});
    b.values.push_back(0);
    b.values.push_back(k == 0 ? 9 : 0);
    b.values.push_back(k == 5 ? 2 : 0);
  }
  place.set_operands(a, b);
  for (const int num_ranks : {2, 3, 7}) CHECK(division_of_run(num_ranks, kInner) == "inner");
  const spmm::ProductMatrix c = spmm::read_product("z.bin");
  CHECK(c.index == std::vector<BlockIndex>{{.i = 0, .j = 1}, {.i = 0, .j = 2}});
  CHECK(c.values == std::vector<std::uint32_t>{63, 14});
}

TEST_CASE("parts that do not fit a rank's memory are not taken; a small limit makes rounds of sums") {
  const MpiPlace place;
  place.set_operands(random_matrix(1600, 4, 20000, 65535, 21), random_matrix(1600, 4, 20000, 65535, 22));
  // C has up to 160,000 blocks, 11.5 MB: more than a quarter.
  CHECK(division_of_run(2, kInner, {"--memory-limit", "30M"}) == "rows");
  CHECK(division_of_run(3, kInner, {"--memory-limit", "50M"}) == "inner");
  const auto report = parse_report("report", content_of("report.json"));
  CHECK(report["rounds"].get<int>() > 1);
}
