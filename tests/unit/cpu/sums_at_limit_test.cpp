// Elements at the limit are counted exactly where sums just reach it: rows whose sums cannot are not examined.
#include <cstdint>
#include <vector>

#include "support/battery.hpp"
#include "support/catch.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

/// A row of blocks times a column of blocks: one block of C. Element (0, 0) is the sum over `terms` of x * y, where
/// the last y is `last`; the other elements are 0.
Operands long_sum(std::uint32_t m, std::uint32_t terms, std::uint16_t x, std::uint16_t y, std::uint16_t last) {
  const std::uint32_t blocks = (terms + m - 1) / m;
  const std::size_t elements = std::size_t{m} * m;
  BlockMatrix a{.n = blocks * m, .m = m, .index = {}, .values = std::vector<std::uint16_t>(blocks * elements)};
  BlockMatrix b = a;
  for (std::uint32_t t = 0; t < blocks; ++t) {
    a.index.push_back({.i = 0, .j = t});
    b.index.push_back({.i = t, .j = 0});
  }
  for (std::uint32_t t = 0; t < terms; ++t) {
    a.values[t / m * elements + t % m] = x;
    b.values[t / m * elements + t % m * m] = t + 1 == terms ? last : y;
  }
  return {a, b};
}

std::uint64_t count(const Operands& operands, const Settings& settings) {
  MemorySink sink(operands.first.header());
  return run_streams(MemorySource(operands.first), MemorySource(operands.second), sink, settings).num_saturated;
}

TEST_CASE("saturation: a true sum of 2^32 - 1 counts, one less does not, for every kernel and instruction set") {
  constexpr std::uint32_t kTerms = 65'537;  // times 65535: 2^32 - 1
  for (const std::uint32_t m : {1u, 2u, 3u, 4u, 5u, 8u, 32u, 33u}) {
    const Operands reached = long_sum(m, kTerms, 1, 65'535, 65'535);
    const Operands missed = long_sum(m, kTerms, 1, 65'535, 65'534);
    const Operands shorter = long_sum(m, kTerms - 1, 1, 65'535, 65'535);  // not examined where blocks are full
    for (const std::string& isa : available_isas()) {
      INFO("m " << m << ", " << isa);
      const ForcedIsa forced(isa);
      CHECK(count(reached, {}) == 1);
      CHECK(count(missed, {}) == 0);
      CHECK(count(shorter, {}) == 0);
    }
  }
  const Operands reached = long_sum(4, kTerms, 1, 65'535, 65'535);
  for (const std::string& kernel : available_kernels()) {
    INFO(kernel);
    CHECK(count(reached, {.kernel = kernel}) == 1);
    CHECK(count(long_sum(4, kTerms, 1, 65'535, 65'534), {.kernel = kernel}) == 0);
  }
}

TEST_CASE("saturation: small elements that need many pairs to reach the limit") {
  // 2047^2 * 8 * 128 < 2^32 - 1 <= 2047^2 * 8 * 129: rows of up to 128 blocks are not examined.
  for (const auto& [blocks, expected] : {std::pair{128u, 0u}, {129u, 1u}}) {
    const Operands operands = long_sum(8, 8 * blocks, 2047, 2047, 2047);
    for (const std::string& isa : available_isas()) {
      INFO(blocks << " blocks, " << isa);
      const ForcedIsa forced(isa);
      CHECK(count(operands, {}) == expected);
    }
  }
}

}  // namespace
}  // namespace spmm::test
