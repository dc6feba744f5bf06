// Every kernel and instruction set against the oracle on every recipe.
#include "support/battery.hpp"

#include <algorithm>
#include <array>

#include "cpu/simd/isa.hpp"
#include "support/catch.hpp"
#include "support/oracle.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

constexpr std::array<std::uint32_t, 12> kSides = {1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 33, 64};  // with all recipes
constexpr std::uint32_t kLargeDim = 16;  // from here on one seed, to save time

std::vector<std::uint64_t> seeds(std::uint32_t m) {
  return m < kLargeDim ? std::vector<std::uint64_t>{1, 2, 3} : std::vector<std::uint64_t>{4};
}

void check_recipe(const Recipe& recipe, std::uint32_t m, std::uint64_t seed) {
  INFO(recipe.name << " (" << recipe.bug << "), m = " << m << ", seed " << seed);
  const auto [a, b] = recipe.make(m, seed);
  const ProductMatrix expected = oracle_multiply(a, b);
  for (const std::string& kernel : available_kernels()) {
    INFO(kernel);
    if (kernel == "reference") {
      if (m <= kLargeDim) CHECK((run_cpu(a, b, {.kernel = kernel}) == expected));
      continue;
    }
    for (const std::string& isa : available_isas()) {
      INFO(isa);
      const ForcedIsa forced(isa);
      CHECK(cpu::isa_name(cpu::choose_isa()) == isa);
      CHECK((run_cpu(a, b, {.kernel = kernel}) == expected));
    }
  }
}

TEST_CASE("cpu: battery, every kernel and instruction set") {
  for (const std::uint32_t m : kSides) {
    for (const Recipe& recipe : battery()) {
      for (const std::uint64_t seed : seeds(m)) check_recipe(recipe, m, seed);
    }
  }
}

TEST_CASE("cpu: battery, all other sides") {
  // Each meets a sixth of the recipes, another one than the sides next to it: all of them take 30 s.
  for (std::uint32_t m = 1; m <= kMaxBlockDim; ++m) {
    if (std::find(kSides.begin(), kSides.end(), m) != kSides.end()) continue;
    for (std::size_t r = m % 6; r < battery().size(); r += 6) check_recipe(battery()[r], m, 5);
  }
}

TEST_CASE("cpu: battery with one record per buffer and few buffers") {
  for (const std::uint32_t m : {1u, 2u, 3u, 4u, 8u}) {
    for (const Recipe& recipe : battery()) {
      INFO(recipe.name << ", m = " << m);
      const auto [a, b] = recipe.make(m, 5);
      const ProductMatrix expected = oracle_multiply(a, b);
      for (const std::string& kernel : available_kernels()) {
        INFO(kernel);
        CHECK((run_cpu(a, b, {.kernel = kernel, .num_threads = 2, .panel_bytes = 1, .num_buffers = 2, .num_kept = 1}) ==
               expected));
      }
    }
  }
}

TEST_CASE("cpu: threads and buffers do not change the result") {
  const auto a = random_matrix(60 * 8, 8, 600, 65535, 11);
  const auto b = random_matrix(60 * 8, 8, 600, 65535, 12);
  const ProductMatrix expected = oracle_multiply(a, b);
  for (const unsigned num_threads : {1u, 2u, 5u}) {
    for (const std::uint64_t num_records : {1u, 7u, 1000u}) {
      for (const std::uint64_t num_buffers : {1u, 2u, 3u, 12u}) {
        INFO(num_threads << " threads, " << num_buffers << " buffers of " << num_records << " records");
        const Settings settings{.num_threads = num_threads,
                                .panel_bytes = num_records * output_record_bytes(8) + 5,
                                .num_buffers = num_buffers,
                                .num_kept = num_buffers > 1 ? std::size_t{1} : 0};
        CHECK((run_cpu(a, b, settings) == expected));
      }
    }
  }
}

TEST_CASE("cpu: metamorphic properties") {
  for (const std::uint32_t m : {1u, 4u, 6u, 8u, 12u}) {
    INFO("m = " << m);
    const auto a = random_matrix(20 * m, m, 90, 65535, 21);
    const auto b = random_matrix(20 * m, m, 90, 65535, 22);
    const ProductMatrix ab = run_cpu(a, b);

    const auto identity = identity_matrix(20 * m, m);
    const ProductMatrix same = run_cpu(a, identity);
    CHECK((same == oracle_multiply(a, identity)));
    CHECK(std::vector<std::uint32_t>(same.block(0), same.block(0) + m * m) ==
          [&] {  // the first block of the product is the block of A at the same position
            const auto at = std::find(a.index.begin(), a.index.end(), same.index.front()) - a.index.begin();
            const std::uint16_t* block = a.block(static_cast<std::size_t>(at));
            return std::vector<std::uint32_t>(block, block + m * m);
          }());
    CHECK((run_cpu(identity, a) == same));

    CHECK((run_cpu(transposed(b), transposed(a)) == transposed_product(ab)));
    CHECK((run_cpu(shuffled(a, 1), shuffled(b, 2)) == ab));
  }
}

}  // namespace
}  // namespace spmm::test
