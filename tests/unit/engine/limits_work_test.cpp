// How much a product reads within less and less memory: counted bytes and products of slabs, no times.
#include <cstdint>

#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"

TEST_CASE("with less and less memory a product reads its operands more often, without a cliff") {
  using namespace spmm;
  struct Operands {
    std::uint32_t m;
    std::uint32_t rows;
    std::uint32_t blocks;
  };
  // Measured: 1.5 to 14.5 readings and 2 to 304 slabs, 3.9 to 11.7 readings and 10 to 1,632.
  const auto [m, rows, blocks] = GENERATE(Operands{8, 2048, 60'000}, Operands{1, 16'384, 200'000});
  constexpr double kMostReadings = 20;
  constexpr double kComputing = 12;   // at least as long as so many readings of operands that are in the page cache
  constexpr double kPerSlab = 0.005;  // what a product of two slabs takes in addition to that
  const test::TemporaryFolder folder;
  write_matrix(folder.file("a.bin"), test::random_matrix(rows * m, m, blocks, 100, 1));
  write_matrix(folder.file("b.bin"), test::random_matrix(rows * m, m, blocks, 100, 2));
  const double operands = 2.0 * blocks * static_cast<double>(input_record_bytes(m));
  double before = 1 + kComputing;
  for (double share = 1.5; share > 0.1; share *= 0.75) {
    Options options;
    options.backend = Backend::cpu;
    options.num_threads = 1;
    options.memory_limit_bytes = static_cast<std::uint64_t>(share * operands);
    const Report report = multiply(folder.file("a.bin"), folder.file("b.bin"), folder.file("c.bin"), options);
    const double readings = static_cast<double>(report.stage(Stage::read).bytes) / operands;
    INFO("m = " << m << ", limit " << share << " times the operands, " << report.plan.num_a_slabs << " and "
                << report.plan.num_b_slabs << " slabs, " << readings << " readings");
    CHECK(report.plan.num_a_slabs > 1);
    CHECK(report.plan.num_b_slabs == 1);  // no block row of A meets B column by column
    CHECK(readings < kMostReadings);
    const double work = readings + kComputing + kPerSlab * report.plan.num_a_slabs;
    CHECK(work < 1.5 * before);
    before = work;
  }
}
