// Threads and buffers of the CPU kernels under memory limits, and what they need.
#include <cstdint>

#include "cpu/simd/layout.hpp"
#include "plan/choice.hpp"
#include "plan/registry.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

plan::Limits cpu_limits(unsigned num_threads, std::uint64_t host_bytes, std::string_view kernel = "row-merge") {
  plan::Limits limits = large_machine();
  limits.backend = Backend::cpu;
  limits.kernel = plan::kernel_named(kernel);
  limits.num_threads = num_threads;
  limits.host_bytes = host_bytes;
  return limits;
}

}  // namespace

TEST_CASE("threads are given up before buffers become tiny") {
  const plan::Counts s = evenly_spread(8192, 4, 60'000);
  for (const unsigned cores : {2u, 16u}) {
    plan::Limits limits = cpu_limits(16, 36'000'000);
    limits.num_cores = cores;
    const plan::Choice e = plan::decide(s, limits);
    CHECK_FALSE(e.is_out_of_core());
    CHECK(e.num_threads < 16);
    CHECK(e.panel_bytes >= 250u << 10);
  }
  // They grow back while they fit; what was asked for is used where memory is ample.
  unsigned last = 0;
  for (const std::uint64_t mb : {36u, 60u, 100u, 400u, 4000u}) {
    const plan::Choice e = plan::decide(s, cpu_limits(16, mb * 1'000'000));
    CHECK(e.num_threads >= last);
    last = e.num_threads;
  }
  CHECK(last == 16);
}

TEST_CASE("what exactly fits is taken, one byte less is not") {
  const plan::Counts s = evenly_spread(8192, 8, 100'000);
  for (const std::string_view kernel : {"row-merge", "reference"}) {
    INFO(kernel);
    const plan::Choice roomy = plan::decide(s, cpu_limits(4, std::uint64_t{8} << 30, kernel));
    plan::Choice exact_fit = plan::decide(s, cpu_limits(4, roomy.host_need_bytes, kernel));
    CHECK(exact_fit.panel_bytes == roomy.panel_bytes);
    CHECK(exact_fit.num_buffers == roomy.num_buffers);
    CHECK(exact_fit.num_threads == roomy.num_threads);
    const plan::Choice less = plan::decide(s, cpu_limits(4, roomy.host_need_bytes - 1, kernel));
    CHECK(less.host_need_bytes < roomy.host_need_bytes);
    // The least that a refusal asks for is enough.
    const plan::Choice refused = plan::decide(s, cpu_limits(4, 1000, kernel));
    REQUIRE(refused.is_refused());
    CHECK_FALSE(plan::decide(s, cpu_limits(4, refused.refusal.need_bytes, kernel)).is_refused());
    const std::uint64_t at_once = plan::decide_at_once(s, cpu_limits(4, 1000, kernel)).refusal.need_bytes;
    CHECK_FALSE(plan::decide_at_once(s, cpu_limits(4, at_once, kernel)).is_refused());
    CHECK(plan::decide_at_once(s, cpu_limits(4, at_once - 1, kernel)).is_refused());
  }
}

TEST_CASE("a selection leaves as much of a result out of core as of one in memory") {
  const plan::Counts s = evenly_spread(8192, 8, 100'000);
  plan::Limits limits = cpu_limits(4, 4'000'000);
  limits.selection = {.upper_triangle = true};
  const plan::Choice e = plan::decide(s, limits);
  CHECK(e.is_out_of_core());
  CHECK(e.expected_pairs == s.num_pairs / 2);
  CHECK(e.expected_output_blocks == s.num_c_blocks / 2);
}

TEST_CASE("of some rows of a triangle the blocks right of the diagonal are expected") {
  const plan::Counts s = evenly_spread(8192, 8, 100'000);  // 1,024 block rows
  constexpr Selection kTriangle{.upper_triangle = true};
  const auto share = [&](RowRange rows) {
    const plan::Counts of_rows = plan::expected_of_selection(s, kTriangle, rows);
    CHECK(of_rows.num_c_blocks / s.num_c_blocks == Approx(of_rows.num_pairs / s.num_pairs));
    return of_rows.num_pairs / s.num_pairs;
  };
  CHECK(share({}) == Approx(0.5));
  CHECK(share({.first = 0, .end = 256}) == Approx(0.875));
  CHECK(share({.first = 768}) == Approx(0.125));
  CHECK(plan::expected_of_selection(s, {.no_diagonal = true}, {.first = 768}).num_pairs == s.num_pairs);
}

TEST_CASE("a refusal says need and have") {
  const plan::Counts s = evenly_spread(8192, 8, 100'000);
  plan::Limits limits = large_machine();
  const auto message = [&]() -> std::string {
    const plan::Choice e = plan::decide(s, limits);
    try {
      plan::throw_if_refused(e);
    } catch (const std::exception& error) {
      CHECK(std::string(error.what()).find(std::to_string(e.refusal.need_bytes) + " bytes") != std::string::npos);
      return error.what();
    }
    return "accepted";
  };
  for (const bool on_device : {true, false}) {
    limits = large_machine();
    (on_device ? limits.gpus[0].bytes : limits.host_bytes) = 1000;
    const std::string text = message();
    INFO(text);
    CHECK(text.find(on_device ? "device memory" : "host memory") != std::string::npos);
    CHECK(text.find("1000 bytes") != std::string::npos);
    CHECK(text.find("EngineOptions::memory_limit_bytes") != std::string::npos);
  }
}
