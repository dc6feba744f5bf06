// How much a product reads within less and less memory: counted bytes, no times.
#include <cstdint>

#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"

TEST_CASE("with less and less memory a product reads its operands more often, without a cliff") {
  using namespace spmm;
  constexpr std::uint32_t kBlocks = 60'000;
  constexpr double kMostReadings = 20;  // measured: 1.5 to 14.9
  constexpr double kComputing = 12;     // at least as long as so many readings of operands that are in the page cache
  const test::TemporaryFolder folder;
  write_matrix(folder.file("a.bin"), test::random_matrix(2048 * 8, 8, kBlocks, 100, 1));
  write_matrix(folder.file("b.bin"), test::random_matrix(2048 * 8, 8, kBlocks, 100, 2));
  const double operands = 2.0 * kBlocks * static_cast<double>(input_record_bytes(8));
  double before = 1;
  for (double share = 1.5; share > 0.25; share *= 0.75) {
    Options options;
    options.backend = Backend::cpu;
    options.num_threads = 1;
    options.memory_limit_bytes = static_cast<std::uint64_t>(share * operands);
    const Report report = multiply(folder.file("a.bin"), folder.file("b.bin"), folder.file("c.bin"), options);
    const double readings = static_cast<double>(report.stage(Stage::read).bytes) / operands;
    INFO("limit " << share << " times the operands, " << report.plan.num_a_slabs << " and " << report.plan.num_b_slabs
                  << " slabs");
    CHECK(report.plan.num_a_slabs > 1);
    CHECK(readings < kMostReadings);
    CHECK(readings + kComputing < 1.5 * (before + kComputing));
    before = readings;
  }
}
