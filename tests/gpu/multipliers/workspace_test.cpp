// Scratch memory that the libraries ask for stays below what planning counts for it.
#include <cstdint>

#include "kernels/blocks/launch.hpp"
#include "support/catch.hpp"

using namespace spmm;

TEST_CASE("library work space grows by less than a byte per item") {
  // The bound of panel_c_block_bytes() beside packed records.
  const auto bound = [](std::uint64_t count) { return (1u << 20) + count; };
  for (const std::uint64_t count : {0u, 1u, 1000u, 100'000u, 5'000'000u, 100'000'000u, 1'000'000'000u}) {
    INFO(count);
    CHECK(kernels::build_workspace_bytes(count) <= bound(count));
    CHECK(kernels::count_workspace_bytes(count) <= bound(count));
    CHECK(kernels::list_pairs_workspace_bytes(count) <= bound(count));
    CHECK(kernels::compact_workspace_bytes(count) <= bound(count));
    CHECK(kernels::sort_rows_workspace_bytes(count) <= bound(count));
    CHECK(kernels::short_rows_workspace_bytes(count, kernels::kShortRowPairs) <= bound(count));
  }
}
