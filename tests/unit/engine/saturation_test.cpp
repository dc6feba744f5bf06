// Elements at the limit as an error.
#include <cstdint>
#include <string>

#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"

namespace {

using namespace spmm;

/// Full blocks of one element.
BlockMatrix full_matrix(std::uint32_t side, std::uint32_t m, std::uint16_t value) {
  BlockMatrix matrix{.n = side * m, .m = m, .index = {}, .values = {}};
  for (std::uint32_t i = 0; i < side; ++i) {
    for (std::uint32_t j = 0; j < side; ++j) matrix.index.push_back({.i = i, .j = j});
  }
  matrix.values.assign(matrix.index.size() * m * m, value);
  return matrix;
}

}  // namespace

TEST_CASE("saturation: where it is an error, the old output stays and the message says what and where") {
  const test::TemporaryFolder folder;
  BlockMatrix a = full_matrix(3, 4, 1);
  a.values[5 * 16 + 6] = 65535;  // block (1, 2), row 1: row 5 of the matrix
  const BlockMatrix b = full_matrix(3, 4, 65535);
  write_matrix(folder.file("a"), a);
  write_matrix(folder.file("b"), b);
  Engine engine;
  ProductOptions options;
  options.backend = Backend::cpu;
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
