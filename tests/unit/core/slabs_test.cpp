// Products out of core give the bytes of a product at once.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/record_errors.hpp"
#include "cpu/cpu_backend.hpp"
#include "engine/out_of_core.hpp"
#include "engine/slab_cut.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;

/// Limits of a pretended machine.
struct Limits {
  std::uint64_t a_blocks = 0;  ///< of A that fit at a time
  std::uint64_t b_blocks = 0;
  std::uint64_t host_bytes = 1u << 30;
  double expected_blocks = 0;  ///< of the whole result, as the planner reckons
};

struct Outcome {
  ProductMatrix product;
  Plan plan;
  ProductStats stats;
};

/// Without finish(): all of the outcome but the product.
Outcome multiply_into(const BlockMatrix& a, const BlockMatrix& b, const Limits& limits, Sink& sink) {
  const auto source_a = make_memory_source(a, "matrix A");
  const auto source_b = make_memory_source(b, "matrix B");
  Outcome out;
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .cancel = nullptr, .num_threads = 2};
  const auto plan_band = [&](const MatrixHeader& band_a, const MatrixHeader& band_b, std::uint64_t reserved_bytes) {
    if (band_a.num_blocks > limits.a_blocks || band_b.num_blocks > limits.b_blocks) {
      throw OutOfMemory("test", "does not fit", "use less");
    }
    Plan plan;
    plan.backend = Backend::cpu;
    plan.kernel = "row-merge";
    plan.num_threads = 2;
    plan.host_limit_bytes = limits.host_bytes - std::min(limits.host_bytes, reserved_bytes);
    plan.panel_bytes = std::max<std::uint64_t>(4096, output_record_bytes(a.m));
    plan.num_buffers = 3;
    const double share =
        static_cast<double>(band_a.num_blocks) / static_cast<double>(std::max<std::size_t>(1, a.index.size())) *
        static_cast<double>(band_b.num_blocks) / static_cast<double>(std::max<std::size_t>(1, b.index.size()));
    plan.expected_output_blocks = limits.expected_blocks * share;
    return plan;
  };
  const auto run_band = [&](const Source& band_a, const Source& band_b, Sink& to, const Plan& plan) {
    return cpu::multiply(band_a, band_b, to, plan, run);
  };
  out.stats = multiply_with_bands(*source_a, *source_b, sink, plan_band, run_band, run, out.plan);
  return out;
}

Outcome multiply_within(const BlockMatrix& a, const BlockMatrix& b, const Limits& limits) {
  ProductMatrix product;
  const auto sink = make_memory_sink(product);
  Outcome out = multiply_into(a, b, limits, *sink);
  sink->finish({.n = a.n, .m = a.m, .num_blocks = static_cast<std::uint32_t>(out.stats.num_blocks)});
  sink->publish();
  out.product = std::move(product);
  return out;
}

/// Blocks of the bucket with the most: slabs cannot be smaller.
std::uint64_t largest_bucket(const BlockMatrix& matrix, bool rows) {
  std::vector<std::uint64_t> counts(slabs::kNumBuckets, 0);
  for (const BlockIndex& at : matrix.index) {
    ++counts[std::uint64_t{rows ? at.i : at.j} * slabs::kNumBuckets / (matrix.n / matrix.m)];
  }
  return *std::max_element(counts.begin(), counts.end());
}

}  // namespace

TEST_CASE("slabs give the oracle's product on the battery") {
  for (const test::Recipe& recipe : test::battery()) {
    for (const std::uint32_t m : {1u, 4u, 8u}) {
      const test::Operands operands = recipe.make(m, 1);
      const auto& [a, b] = operands;
      const ProductMatrix expected = test::oracle_multiply(a, b);
      for (const std::uint64_t part : {1u, 2u, 5u}) {
        for (const bool cut_b : {false, true}) {
          const std::uint64_t a_blocks = std::max<std::uint64_t>(largest_bucket(a, true), a.index.size() / part + 1);
          const std::uint64_t b_blocks = std::max<std::uint64_t>(largest_bucket(b, false), b.index.size() / part + 1);
          INFO(recipe.name << " (" << recipe.bug << "), m " << m << ", 1/" << part << (cut_b ? ", B too" : ""));
          // Twice the smallest slab always allows some division.
          const Outcome out =
              multiply_within(a, b, {.a_blocks = 2 * a_blocks, .b_blocks = cut_b ? 2 * b_blocks : b.index.size()});
          REQUIRE((out.product == expected));
        }
      }
    }
  }
}

TEST_CASE("the division that is needed is used, and counts add up") {
  const BlockMatrix a = test::random_matrix(4 * 200, 4, 3000, 65535, 1);
  const BlockMatrix b = test::random_matrix(4 * 200, 4, 3000, 65535, 2);
  const Outcome whole = multiply_within(a, b, {.a_blocks = 3000, .b_blocks = 3000});
  CHECK(whole.plan.a_bands == 1);
  CHECK(whole.plan.b_bands == 1);
  const Outcome rows = multiply_within(a, b, {.a_blocks = 1100, .b_blocks = 3000});
  CHECK(rows.plan.a_bands >= 3);
  CHECK(rows.plan.b_bands == 1);
  const Outcome both = multiply_within(a, b, {.a_blocks = 1100, .b_blocks = 800});
  CHECK(both.plan.a_bands >= 3);
  CHECK(both.plan.b_bands >= 4);
  for (const Outcome* out : {&rows, &both}) {
    CHECK((out->product == whole.product));
    CHECK(out->stats.pairs == whole.stats.pairs);
    CHECK(out->stats.num_blocks == whole.stats.num_blocks);
  }
}

TEST_CASE("a slab whose result is too large is divided further") {
  const BlockMatrix a = test::random_matrix(8 * 100, 8, 2000, 2047, 1);
  const BlockMatrix b = test::random_matrix(8 * 100, 8, 2000, 2047, 2);
  const ProductMatrix expected = test::oracle_multiply(a, b);
  const std::uint64_t result_bytes = expected.index.size() * output_record_bytes(8);
  // 1.1 MB are lists of slabs; what is left holds about a tenth of the result.
  const std::uint64_t host_bytes = (11u << 17) + result_bytes / 5;
  const Outcome out = multiply_within(a, b, {.a_blocks = 2000, .b_blocks = 1100, .host_bytes = host_bytes});
  CHECK(out.plan.b_bands >= 2);
  CHECK((out.product == expected));
  // A result of the expected size: A is cut into as many slabs as it needs from the start.
  const Outcome expecting = multiply_within(a, b,
                                            {.a_blocks = 2000,
                                             .b_blocks = 1100,
                                             .host_bytes = host_bytes,
                                             .expected_blocks = static_cast<double>(expected.index.size())});
  CHECK(expecting.plan.a_bands > out.plan.a_bands);
  CHECK(expecting.plan.a_bands * expecting.plan.host_limit_bytes >= result_bytes);
  CHECK((expecting.product == expected));
  CHECK_THROWS_AS(multiply_within(a, b, {.a_blocks = 2000, .b_blocks = 1100, .host_bytes = 1'090'000}), OutOfMemory);
}

TEST_CASE("what fits in no division is refused") {
  const BlockMatrix a = test::random_matrix(4 * 50, 4, 500, 9, 1);
  CHECK_THROWS_AS(multiply_within(a, a, {.a_blocks = 0, .b_blocks = 0}), OutOfMemory);
}

TEST_CASE("errors within a slab name the records of the whole file") {
  BlockMatrix a = test::random_matrix(4 * 50, 4, 500, 9, 1);
  const BlockMatrix good = a;
  a.index[400] = a.index[123];
  const auto message = [&](const BlockMatrix& left, const BlockMatrix& right) -> std::string {
    try {
      multiply_within(left, right, {.a_blocks = 100, .b_blocks = 100});
    } catch (const FormatError& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const std::string& text : {message(a, good), message(good, a)}) {
    INFO(text);
    CHECK(text.find("123") != std::string::npos);
    CHECK(text.find("400") != std::string::npos);
  }
  a.index[400] = {.i = 7, .j = 50};
  CHECK(message(a, good).find("400") != std::string::npos);
}

TEST_CASE("a duplicate is rejected at every limit, also where the other operand is empty") {
  const BlockMatrix good = test::random_matrix(4 * 50, 4, 500, 9, 1);
  BlockMatrix twice = good;
  twice.index[400] = twice.index[123];
  const BlockMatrix none{.n = good.n, .m = good.m, .index = {}, .values = {}};
  for (const std::uint64_t fit : {500u, 100u, 40u}) {
    INFO(fit << " blocks fit");
    const Limits limits{.a_blocks = fit, .b_blocks = fit};
    CHECK_THROWS_AS(multiply_within(none, twice, limits), FormatError);
    CHECK_THROWS_AS(multiply_within(twice, none, limits), FormatError);
    CHECK(multiply_within(none, good, limits).product.index.empty());
    CHECK(multiply_within(good, none, limits).product.index.empty());
    CHECK(multiply_within(none, none, limits).product.index.empty());
  }
}

TEST_CASE("slabs hold every block, none is empty unless there are no blocks at all") {
  std::vector<std::uint64_t> counts(slabs::kNumBuckets, 0);
  counts[5] = 10;
  counts[6] = 1;
  counts[60'000] = 3;
  for (const std::uint32_t num_slabs : {1u, 2u, 3u, 64u}) {
    const std::vector<slabs::Slab> cut = slabs::cut_slabs(counts, 0, slabs::kNumBuckets, num_slabs);
    CHECK(cut.size() == std::min(num_slabs, 3u));
    std::uint64_t sum = 0;
    for (const slabs::Slab& slab : cut) {
      CHECK(slab.num_blocks > 0);
      sum += slab.num_blocks;
    }
    CHECK(sum == 14);
  }
  const std::vector<slabs::Slab> empty = slabs::cut_slabs(counts, 100, 1000, 4);
  REQUIRE(empty.size() == 1);
  CHECK(empty[0].num_blocks == 0);
}

TEST_CASE("too many result blocks: one error at every limit") {
  const BlockMatrix a = test::random_matrix(4 * 60, 4, 700, 9, 1);
  const Outcome whole = multiply_within(a, a, {.a_blocks = 700, .b_blocks = 700});
  const auto message = [&](std::uint64_t fit) -> std::string {
    try {
      test::MemorySink sink(a.header());  // counts no blocks itself
      multiply_into(a, a, {.a_blocks = fit, .b_blocks = fit}, sink);
    } catch (const OutOfMemory& error) {
      return error.what();
    }
    return "accepted";
  };
  struct Restore {
    ~Restore() { max_output_blocks = 0xFFFF'FFFFu; }
  } const restore;
  max_output_blocks = whole.stats.num_blocks;
  CHECK(message(700) == "accepted");
  CHECK(message(200) == "accepted");
  max_output_blocks = whole.stats.num_blocks - 1;
  CHECK(message(700).find("more than " + std::to_string(whole.stats.num_blocks - 1) + " non-zero blocks") !=
        std::string::npos);
  CHECK(message(200) == message(700));
  CHECK(message(50) == message(700));
}
