// The parts of the row-merge kernel on their own: sort, arrays, predicted memory.
#include <algorithm>
#include <random>

#include "base/memory/aligned_array.hpp"
#include "cpu/operands/digit_sorter.hpp"
#include "cpu/simd/isa.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/stress_case.hpp"
#include "support/wrapped_calls.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

TEST_CASE("cpu: the sort by digits is stable and compares the given bits only") {
  std::mt19937_64 random(1);
  for (const std::size_t size : {0u, 1u, 2u, 25u, 1000u, 100'000u}) {
    for (const auto& [first, last] : {std::pair{0u, 64u}, {0u, 1u}, {20u, 30u}, {32u, 64u}}) {
      std::vector<std::uint64_t> items(size);
      for (std::size_t x = 0; x < size; ++x) {  // below the bits that are sorted: the place
        items[x] = first == 0 ? random() >> (64 - last) : (random() << first | x) & (~std::uint64_t{0} >> (64 - last));
      }
      std::vector<std::uint64_t> scratch(size);
      std::vector<std::uint64_t> expected = items;
      std::sort(expected.begin(), expected.end());
      const std::uint64_t* const sorted = cpu::DigitSorter().sort(items.data(), size, scratch.data(), first, last);
      CHECK(std::equal(expected.begin(), expected.end(), sorted));
    }
  }
}

TEST_CASE("cpu: arrays are aligned, counted, and moved") {
  for (const std::uint64_t bytes : {1u, 64u, 65'535u, 65'536u, 65'537u, 5'000'000u}) {
    const std::uint64_t before = array_bytes();
    test::restart_array_peak();
    {
      AlignedArray<std::byte> array(bytes);
      array[0] = array[bytes - 1] = std::byte{7};
      CHECK(reinterpret_cast<std::uintptr_t>(array.data()) % 64 == 0);
      CHECK(array_bytes() == before + bytes);
      const std::byte* const data = array.data();
      AlignedArray<std::byte> other(3);
      other = std::move(array);
      CHECK(other.data() == data);
      CHECK(array.size() == 0);
      other.truncate(1);
      CHECK(other.size() == 1);
      CHECK(array_bytes() == before + bytes);
    }
    CHECK(array_bytes() == before);
    CHECK(test::peak_array_bytes() == before + bytes + 3);
  }
  CHECK_THROWS_AS(AlignedArray<std::byte>(std::uint64_t{1} << 62), OutOfMemory);
  CHECK_THROWS_AS(AlignedArray<std::byte>(~std::uint64_t{0}), OutOfMemory);
}

/// The most array bytes of a product at a time. All arrays are gone when it has ended.
std::uint64_t peak_of_arrays(const BlockMatrix& a, const BlockMatrix& b, const Settings& settings) {
  const std::uint64_t before = array_bytes();
  const MemorySource source_a(a);
  const MemorySource source_b(b);
  MemorySink sink(a.header());
  test::restart_array_peak();
  run_streams(source_a, source_b, sink, settings);
  CHECK(array_bytes() == before);
  return test::peak_array_bytes() - before;
}

TEST_CASE("cpu: no product takes more arrays than predicted") {
  for (const std::string& isa : {std::string("portable"), available_isas().back()}) {
    const ForcedIsa forced(isa);
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      const auto [a, b] = random_operands(seed);
      for (const std::string& kernel : available_kernels()) {
        for (const unsigned num_threads : {1u, 3u}) {
          const Settings settings{.kernel = kernel, .num_threads = num_threads};
          const plan::Choice e = make_execution(settings, plan::expected_counts(a.header(), b.header()));
          const plan::HostBytes need =
              plan::row_of(e.kernel).host_bytes(a.header(), b.header(), cpu::choose_isa(), plan::kAnySpan);
          INFO("seed " << seed << ", " << kernel << ", " << num_threads << " threads, " << isa);
          CHECK(peak_of_arrays(a, b, settings) <= need.total(e.num_threads, e.num_buffers, e.panel_bytes));
        }
      }
    }
  }
}

}  // namespace
}  // namespace spmm::test
