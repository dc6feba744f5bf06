// Kernels of chains on the CPU, in a stand-in for CUDA: bits against the oracle where there is no GPU.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/chains/f32.cu"
#include "kernels/chains/f64.cu"
#include "kernels/chains/half.cu"
#include "kernels/chains/integers.cu"
#include "kernels/chains/list.cu"
#include "kernels/chains/types.cu"
#include "support/catch.hpp"
#include "support/chain_cases.hpp"

namespace spmm::kernels {
namespace {
thread_local std::uint32_t list_windows[1 << 16];  // dynamic shared memory
}

template <class Terms, class Sum>
std::size_t scan_workspace_bytes(std::uint64_t) {
  return 0;
}
template <class Terms, class Sum>
void launch_scan(const Terms& terms, std::uint64_t count, Sum* sums, Workspace, cudaStream_t, const char*) {
  Sum sum = 0;
  for (std::uint64_t x = 0; x < count; ++x) {
    sums[x] = sum;
    sum += terms(x);
  }
}

}  // namespace spmm::kernels

namespace {

using namespace spmm;
using namespace spmm::test;

/// Compressed rows of a pattern, and where its blocks lie: in a random order if is_shuffled.
struct Operand {
  std::vector<std::uint32_t> rows{};
  std::vector<std::uint32_t> offsets{0};
  std::vector<std::uint32_t> numbers{};
  const ChainPattern& at;

  Operand(const ChainPattern& pattern, bool is_shuffled, Random& random) : at(pattern) {
    for (std::uint32_t row = 0; row < at.rows; ++row) {
      if (at.ptr[row] == at.ptr[row + 1]) continue;
      rows.push_back(row);
      offsets.push_back(at.ptr[row + 1]);
    }
    if (!is_shuffled) return;
    numbers.resize(at.col.size());
    std::iota(numbers.begin(), numbers.end(), 0u);
    std::shuffle(numbers.begin(), numbers.end(), random);
  }
  [[nodiscard]] kernels::CompressedView view() const {
    return {.num_rows = static_cast<std::uint32_t>(rows.size()),
            .rows = rows.data(),
            .offsets = offsets.data(),
            .columns = at.col.data()};
  }
  template <class T>
  [[nodiscard]] std::vector<T> placed(const ChainMatrix<T>& matrix) const {
    std::vector<T> values = matrix.values;
    const std::size_t elements = std::size_t{matrix.m} * matrix.m;
    for (std::size_t x = 0; x < numbers.size(); ++x) {
      std::copy_n(matrix.values.begin() + static_cast<std::ptrdiff_t>(x * elements), elements,
                  values.begin() + static_cast<std::ptrdiff_t>(numbers[x] * elements));
    }
    return values;
  }
};

/// What src/cuda does with the kernels. Values: tuning = small windows, so that rows have several.
template <class T>
ChainMatrix<SumOf<T>> emulated_product(const ChainOperands<T>& operands, bool is_shuffled, bool has_exact_mma,
                                       const kernels::ListTuning& tuning, Random& random) {
  const Operand a(operands.a.at, is_shuffled, random);
  const Operand b(operands.b.at, is_shuffled, random);
  ChainMatrix<SumOf<T>> c{.at = {.rows = a.at.rows, .cols = b.at.cols}, .m = operands.a.m};
  c.at.ptr.assign(a.at.rows + std::size_t{1}, 0);
  std::vector<std::uint32_t> b_row_index;
  for (const std::uint32_t column : a.at.col) {
    const auto found = std::lower_bound(b.rows.begin(), b.rows.end(), column);
    const bool is_stored = found != b.rows.end() && *found == column;
    b_row_index.push_back(is_stored ? static_cast<std::uint32_t>(found - b.rows.begin()) : kernels::kNoRow);
  }
  const std::size_t num_rows = a.rows.size();
  kernels::RowsToList rows{.operands = {.a = a.view(),
                                        .b_rows = b.view(),
                                        .b_row_index = b_row_index.data(),
                                        .a_numbers = is_shuffled ? a.numbers.data() : nullptr,
                                        .b_numbers = is_shuffled ? b.numbers.data() : nullptr},
                           .num_columns = b.at.cols,
                           .tuning = tuning};
  std::vector<std::uint32_t> num_pairs(num_rows), walked(num_rows), row_links(num_rows + 1), row_blocks(num_rows),
      c_offsets(num_rows + 1);
  rows.walked = walked.data();
  kernels::launch_count_links(rows.operands, {num_pairs.data(), walked.data(), &rows.totals}, tuning, nullptr);
  if (rows.totals.num_pairs == 0) return c;
  kernels::launch_sum_counts(num_pairs.data(), num_rows, row_links.data(), {}, nullptr);
  REQUIRE(row_links.back() == rows.totals.num_pairs);
  std::vector<kernels::Link> links(rows.totals.num_pairs + 1);
  kernels::LinkList list{.row_links = row_links.data(), .row_blocks = row_blocks.data(), .links = links.data()};
  kernels::launch_count_c_blocks(rows, list, nullptr);
  kernels::launch_sum_counts(row_blocks.data(), num_rows, c_offsets.data(), {}, nullptr);
  list.num_c_blocks = c_offsets.back();
  std::vector<std::uint32_t> c_links(list.num_c_blocks + std::size_t{1});
  c.at.col.resize(list.num_c_blocks);
  list.c_offsets = c_offsets.data();
  list.c_columns = c.at.col.data();
  list.c_links = c_links.data();
  kernels::launch_fill_links(rows, list, nullptr);
  std::vector<std::int32_t> indptr(c.at.ptr.size()), indices(list.num_c_blocks);
  kernels::launch_expand_indices(
      list, a.rows.data(), static_cast<std::uint32_t>(num_rows),
      {.indptr = indptr.data(), .indices = indices.data(), .index_bytes = 4, .num_rows = a.at.rows}, nullptr);
  c.at.ptr.assign(indptr.begin(), indptr.end());
  c.at.col.assign(indices.begin(), indices.end());
  c.values.resize(c.at.col.size() * c.m * c.m);
  const std::vector<T> a_values = a.placed(operands.a);
  const std::vector<T> b_values = b.placed(operands.b);
  kernels::launch_multiply_chains(kElementType<T>,
                                  {.c_links = c_links.data(),
                                   .links = links.data(),
                                   .num_c_blocks = list.num_c_blocks,
                                   .num_rows = static_cast<std::uint32_t>(num_rows),
                                   .m = c.m,
                                   .has_exact_mma = has_exact_mma},
                                  {.a = a_values.data(), .b = b_values.data(), .c = c.values.data()}, nullptr);
  return c;
}

constexpr kernels::ListTuning kSmallWindows{
    .medium_pairs = 512, .medium_window = {.words = 20, .ranks = 48}, .long_window = {.words = 16, .ranks = 64}};

template <class T>
void check_products(int count, std::uint64_t seed) {
  for (int x = 0; x < count; ++x) {
    Random random(seed + static_cast<std::uint64_t>(x));
    const std::uint32_t m = random_side(random);
    INFO("seed " << seed + static_cast<std::uint64_t>(x) << ", side " << m);
    const ChainOperands<T> operands = random_operands<T>(m, 3000, random);
    const kernels::ListTuning tuning = x % 4 == 0 ? kernels::ListTuning{} : kSmallWindows;
    const auto wanted = chain_oracle(operands.a, operands.b);
    CHECK(same_bits(wanted, emulated_product(operands, x % 3 == 0, x % 2 == 0, tuning, random)));
  }
}

}  // namespace

#define SPMM_TEST_TYPE(T, name)                                                        \
  TEST_CASE("kernels of chains give the oracle's bits, emulated: " #name) {            \
    check_products<T>(std::is_same_v<T, double> ? 40 : sizeof(T) == 4 ? 10 : 4, 1000); \
  }
SPMM_CHAIN_TYPES(SPMM_TEST_TYPE)

TEST_CASE("padding of fragments leaves sums of -0 as they are, emulated") {
  Random random(1);
  for (const std::uint32_t m : {3u, 5u, 7u, 9u, 18u}) {
    const auto matrix = [&] {
      return random_chain_matrix<double>(random_pattern(4, 4, 0.5, false, random), m, ChainValueKind::vanishing,
                                         random);
    };
    const ChainOperands<double> operands{.a = matrix(), .b = matrix()};
    CHECK(same_bits(chain_oracle(operands.a, operands.b), emulated_product(operands, false, true, {}, random)));
  }
}
