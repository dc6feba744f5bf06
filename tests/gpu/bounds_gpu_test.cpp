// The verifier's kernels against the host's bounds: the same claims stay. A proof by them accepts and rejects as
// others.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/backend.hpp"
#include "spmm/engine.hpp"
#include "spmm/saturate.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/oracle.hpp"
#include "unit/verify/bounds_support.hpp"
#include "unit/verify/proof_support.hpp"
#include "verify/rows/host_bounds.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;
constexpr std::uint64_t kTight = 34u << 20;  // one reader, few tiles at once

}  // namespace

TEST_CASE("bounds: the device leaves the claims that the host leaves") {
  std::string why_not;
  const auto device = cuda::find_device(-1, why_not);
  REQUIRE(device != nullptr);
  std::vector<BoundCase> cases = bound_cases();
  cases.push_back({.n = 4096, .m = 8, .blocks = 130'000, .largest = 6000, .row_step = 7});
  cases.push_back({.n = 3000, .m = 4, .blocks = 200'000, .largest = 9500, .row_step = 11, .groups = 3});
  cases.push_back({.n = 2112, .m = 48, .blocks = 1600, .largest = 5350, .row_step = 5, .groups = 2});
  for (const BoundCase& c : cases) {
    const BoundOperands operands(c);
    std::vector<std::uint32_t> expected = operands.claims();
    REQUIRE(operands.prove(expected, [&](const BoundTask& task, const Run& run) {
      return prove_on_host(task, portable_bound_tiles(), 0, run);  // eight bits of both, as on the device
    }));
    for (const std::uint64_t memory : {kPlenty, kTight}) {
      INFO("n " << c.n << ", m " << c.m << ", memory " << memory);
      std::vector<std::uint32_t> claims = operands.claims();
      const BoundProver prover = cuda::bounds_on(*device, memory, nullptr);
      REQUIRE(prover);
      CHECK(operands.prove(claims, prover, 3));
      CHECK(claims == expected);
    }
  }
}

TEST_CASE("bounds: on the device a sum one below the limit clears its claim, one that meets it does not") {
  std::string why_not;
  const auto device = cuda::find_device(-1, why_not);
  REQUIRE(device != nullptr);
  const auto [a, b] = operands_at_limit();
  const BoundOperands operands(a, b);
  std::vector<std::uint32_t> claims = operands.all_claims();
  REQUIRE(operands.prove(claims, cuda::bounds_on(*device, kPlenty, nullptr)));
  CHECK(claims == operands.expected(operands.all_claims(), 8, 8));
}

TEST_CASE("bounds: a device without memory says so, and clears nothing") {
  std::string why_not;
  const auto device = cuda::find_device(-1, why_not);
  REQUIRE(device != nullptr);
  const BoundOperands operands(bound_cases().front());
  std::vector<std::uint32_t> claims = operands.claims();
  const std::vector<std::uint32_t> before = claims;
  CHECK_FALSE(operands.prove(claims, cuda::bounds_on(*device, 1u << 20, nullptr)));
  CHECK(claims == before);
}

TEST_CASE("proof: bounds on the device accept right results and find what is wrong between saturated blocks") {
  std::string why_not;
  const auto device = cuda::find_device(-1, why_not);
  REQUIRE(device != nullptr);
  for (const std::uint32_t m : {1u, 4u, 5u, 8u}) {
    INFO(m);
    const std::uint32_t n = 40 * m;
    const BlockMatrix a = random_matrix(n, m, 1500, 65535, 5);
    const ProductMatrix c = oracle_multiply(a, a);
    const ProvenHow how{.settings = {.key = 3,
                                     .device = {.prove = cuda::bounds_on(*device, kPlenty, nullptr)},
                                     .way = BoundWay::panels}};
    const Proven right = prove(a, a, c, how);
    CHECK(right.is_right());
    CHECK(right.result.bounded_by_device);
    CHECK(right.result.num_bounded > 0);
    for (std::size_t e = 3; e < c.values.size(); e += c.values.size() / 23) {
      ProductMatrix wrong = c;
      wrong.values[e] = wrong.values[e] == kMaxVal ? kMaxVal - 1 : kMaxVal;
      CHECK_FALSE(prove(a, a, wrong, how).is_right());
    }
  }
}

TEST_CASE("proof: a product on the device proves a result that saturates everywhere, within a memory limit, too") {
  const BlockMatrix a = random_matrix(1024, 8, 10'000, 65535, 9);
  const ProductMatrix expected = oracle_multiply(a, a);
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{200} << 20}) {
    INFO(limit);
    Engine engine({.memory_limit_bytes = limit});
    ProductOptions options = on_gpu();
    options.verify_full = true;
    Report report;
    const ProductMatrix c = engine.multiply(a, a, options, &report);
    CHECK(c.index == expected.index);
    CHECK(c.values == expected.values);
    CHECK(report.proof.num_exact_rows > 0);
  }
}

TEST_CASE("small bounds: sums around the limit, blocks smaller and larger than a tile") {
  std::string why_not;
  const auto device = cuda::find_device(-1, why_not);
  REQUIRE(device != nullptr);
  for (const BoundCase& c : {BoundCase{.n = 64, .m = 4, .blocks = 110, .largest = 65535},
                             BoundCase{.n = 30, .m = 1, .blocks = 500, .largest = 65535},
                             BoundCase{.n = 110, .m = 11, .blocks = 60, .largest = 24000},
                             BoundCase{.n = 256, .m = 64, .blocks = 12, .largest = 18000, .row_step = 2}}) {
    const BoundOperands operands(c);
    std::vector<std::uint32_t> expected = operands.claims();
    REQUIRE(operands.prove(expected, [&](const BoundTask& task, const Run& run) {
      return prove_on_host(task, portable_bound_tiles(), 0, run);
    }));
    std::vector<std::uint32_t> claims = operands.claims();
    INFO("n " << c.n << ", m " << c.m);
    CHECK(operands.prove(claims, cuda::bounds_on(*device, kPlenty, nullptr), 3));
    CHECK(claims == expected);
  }
}
