// A result says how many of its elements are at the limit: the same number whatever way it goes.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "spmm/arrays.hpp"
#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/oracle.hpp"
#include "support/process.hpp"
#include "support/product_cases.hpp"

namespace {

using namespace spmm;
namespace fs = std::filesystem;

ProductOptions cpu_only(const std::string& kernel = "auto") {
  ProductOptions options;
  options.backend = Backend::cpu;
  options.kernel = kernel;
  return options;
}

/// Full blocks of the largest element: every element of the product is at the limit.
BlockMatrix full_matrix(std::uint32_t side, std::uint32_t m, std::uint16_t value = 65535) {
  BlockMatrix matrix{.n = side * m, .m = m, .index = {}, .values = {}};
  for (std::uint32_t i = 0; i < side; ++i) {
    for (std::uint32_t j = 0; j < side; ++j) matrix.index.push_back({.i = i, .j = j});
  }
  matrix.values.assign(matrix.index.size() * m * m, value);
  return matrix;
}

}  // namespace

TEST_CASE("saturation: transposed operands, checks and arrays give the number of the result") {
  const test::TemporaryFolder folder;
  const test::ProductCase one = test::make_product_case(4, 40, 400, "auto");
  const std::uint64_t expected = test::num_saturated(one.expected);
  REQUIRE(expected > 100);
  write_matrix(folder.file("a"), one.a);
  write_matrix(folder.file("b"), one.b);
  write_matrix(folder.file("b-transposed"), test::transposed(one.b));
  Engine engine;
  ProductOptions options = cpu_only();
  const auto count = [&](const char* b) {
    return engine.multiply(folder.file("a"), folder.file(b), folder.file("c"), options).saturated_elements;
  };
  options.transpose_b = true;
  CHECK(count("b-transposed") == expected);
  options.transpose_b = false;
  options.verify_blocks = 5;
  CHECK(count("b") == expected);
  options.verify_full = true;
  const Report proven = engine.multiply(folder.file("a"), folder.file("b"), folder.file("c"), options);
  CHECK(proven.saturated_elements == expected);
  CHECK(proven.proof.num_saturated == expected);

  const std::vector<std::int64_t> indptr = {0, 1};
  const std::vector<std::int64_t> indices = {0};
  const std::vector<std::uint16_t> data(4, 65535);
  const BsrView<std::uint16_t> view{.rows = 2, .cols = 2, .m = 2, .indptr = indptr, .indices = indices, .data = data};
  Report report;
  multiply(engine, view, view, cpu_only(), &report);
  CHECK(report.saturated_elements == 4);
}

TEST_CASE("saturation: where it is an error, the old output stays and the message says what and where") {
  const test::TemporaryFolder folder;
  BlockMatrix a = full_matrix(3, 4, 1);
  a.values[5 * 16 + 6] = 65535;  // block (1, 2), row 1: row 5 of the matrix
  BlockMatrix b = full_matrix(3, 4, 1);
  for (std::uint16_t& value : b.values) value = 65535;
  write_matrix(folder.file("a"), a);
  write_matrix(folder.file("b"), b);
  Engine engine;
  ProductOptions options = cpu_only();
  engine.multiply(folder.file("a"), folder.file("a"), folder.file("c"), options);
  const ProductMatrix old = read_product(folder.file("c"));
  options.on_saturation = OnSaturation::error;
  const auto message = [&](const std::string& out) -> std::string {
    try {
      engine.multiply(folder.file("a"), folder.file("b"), folder.file(out), options);
    } catch (const SaturationError& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string file = message("c");
  INFO(file);
  CHECK(file.starts_with(folder.file("c") + ": 12 elements are at the limit 4294967295, the first at row 5, "
                                            "column 0; nothing was written"));
  CHECK(file.find("ProductOptions::on_saturation") != std::string::npos);
  CHECK(read_product(folder.file("c")) == old);
  CHECK_THROWS_AS(engine.multiply(a, b, options), SaturationError);
  CHECK(engine.multiply(a, a, options) == old);  // nothing at the limit
}
