// Every block side from 1 to 64 through the row kernels, which pad blocks to the sides that they are compiled for.
#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/tuning.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrix_builder.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::MatrixBuilder;
using test::Operands;

constexpr std::uint64_t kSeedOfB = 1000;

/// The three kernels that read padded blocks; one engine, so that products cost no start.
void check_row_kernels(Engine& engine, const Operands& operands, const std::string& name) {
  const ProductMatrix expected = test::oracle_multiply(operands.first, operands.second);
  for (const std::string kernel : {"pair-list", "row-spread", "rows"}) {
    Report report;
    INFO(name << ", m " << operands.first.m << ", kernel " << kernel);
    REQUIRE((engine.multiply(operands.first, operands.second, test::on_gpu(kernel), &report) == expected));
    REQUIRE(report.peak_device_bytes <= report.plan.device_need_bytes);
  }
}

Operands uniform(std::uint32_t m, std::uint64_t seed) {
  constexpr std::uint32_t kNb = 11;
  return {test::random_matrix(kNb * m, m, 30, test::kFullRange, seed),
          test::random_matrix(kNb * m, m, 30, 2047, seed + kSeedOfB)};
}

/// A full block row, a full block column, and blocks of which most elements are zero: products of zeros are left out.
Operands skewed(std::uint32_t m, std::uint64_t seed) {
  constexpr std::uint32_t kNb = 9;
  MatrixBuilder a(kNb, m, seed);
  MatrixBuilder b(kNb, m, seed + kSeedOfB);
  const auto heavy = static_cast<std::uint32_t>(seed % kNb);
  for (std::uint32_t t = 0; t < kNb; ++t) {
    a.add_random(heavy, t, 3000);
    b.add_random(t, heavy, test::kFullRange);
    if (t == heavy) continue;
    a.add_constant(t, t, 0);
    a.element(m - 1, m - 1) = static_cast<std::uint16_t>(1 + a.below(9));
    b.add_constant(t, (t + 1) % kNb == heavy ? t : (t + 1) % kNb, 0);
    b.element(t % 2 == 0 ? m - 1 : 0, m - 1) = 7;
  }
  return {a.matrix(), b.matrix()};
}

/// Every element the largest: all sums but those of one term leave 32 bits.
Operands saturated(std::uint32_t m, std::uint64_t seed) {
  constexpr std::uint32_t kNb = 6;
  MatrixBuilder a(kNb, m, seed);
  MatrixBuilder b(kNb, m, seed);
  for (std::uint32_t t = 0; t < kNb; ++t) {
    a.add_constant(static_cast<std::uint32_t>(a.below(kNb)), t, test::kFullRange);
    b.add_constant(t, static_cast<std::uint32_t>(b.below(kNb)), test::kFullRange);
  }
  return {a.matrix(), b.matrix()};
}

}  // namespace

TEST_CASE("every block side through the row kernels") {
  Engine engine;
  for (std::uint32_t m = 1; m <= 64; ++m) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      check_row_kernels(engine, uniform(m, seed), "uniform");
      check_row_kernels(engine, skewed(m, seed), "skewed");
      check_row_kernels(engine, saturated(m, seed), "saturated");
    }
  }
}

TEST_CASE("small sides: padded blocks of each kind of kernel") {  // short enough for the sanitizers
  Engine engine;
  for (const std::uint32_t m : {1u, 3u, 6u, 7u, 12u, 17u, 24u, 37u, 40u, 49u}) {
    check_row_kernels(engine, uniform(m, m), "uniform");
    check_row_kernels(engine, skewed(m, m), "skewed");
  }
}

TEST_CASE("one result block with more terms than 32-bit sums of byte products hold") {
  Engine engine;
  for (const std::uint32_t m : {15u, 16u, 17u, 24u, 33u, 40u, 48u, 50u, 56u, 64u}) {
    const std::uint32_t length = std::min(4096u, 66'300 / m + 2);  // not split: at most kSplitKPairs pairs
    for (const std::uint32_t value : {201u, 255u}) {  // below the limit; above it only if nothing wraps around
      MatrixBuilder a(length, m, m);
      MatrixBuilder b(length, m, m);
      for (std::uint32_t t = 0; t < length; ++t) {
        a.add_constant(1, t, value);
        b.add_constant(t, 2, value);
      }
      check_row_kernels(engine, {a.matrix(), b.matrix()}, "long list");
    }
  }
}

TEST_CASE("padded operands stay within the limit") {
  constexpr std::uint32_t kM = 9;  // blocks of 162 bytes, padded to 512
  constexpr std::uint32_t kBlocks = 400'000;
  constexpr std::uint64_t kLimit = 620u << 20;  // little more than the operands, a part of the result
  const BlockMatrix a = test::random_matrix(kM * 80'000, kM, kBlocks, 2047, 1);
  const BlockMatrix b = test::random_matrix(kM * 80'000, kM, kBlocks, 2047, 2);
  Options options = test::on_gpu("rows");
  options.memory_limit_bytes = kLimit;
  Report report;
  (void)test::multiply_into_sink(a, b, options, &report);
  REQUIRE(report.plan.num_a_slabs * report.plan.num_b_slabs == 1);
  REQUIRE(report.num_panels > 1);
  REQUIRE(report.peak_device_bytes <= report.plan.device_need_bytes);
  REQUIRE(report.peak_device_bytes <= kLimit);
}
