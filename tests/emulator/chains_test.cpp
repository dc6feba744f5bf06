// Kernels of chains on the CPU, in a stand-in for CUDA: bits against the oracle where there is no GPU.
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
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

template <class Terms>
std::size_t Scan<Terms>::workspace_bytes(std::uint64_t) {
  return 0;
}
template <class Terms>
void Scan<Terms>::launch(const Terms& terms, std::uint64_t count, Sum* sums, Workspace, cudaStream_t, const char*) {
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

/// What src/cuda does with rows that are counted if C's blocks are given; in place if covers.
template <class T>
ChainMatrix<SumOf<T>> emulated_onto(const ChainOperands<T>& operands, const std::array<std::vector<T>, 2>& values,
                                    const kernels::RowsToList& rows, const GivenResult<T>& given, bool covers) {
  ChainMatrix<SumOf<T>> c{.at = given.at, .m = operands.a.m, .values = given.old};
  const std::vector<std::int64_t> indptr(c.at.ptr.begin(), c.at.ptr.end()), indices(c.at.col.begin(), c.at.col.end());
  const std::size_t num_blocks = indices.size();
  std::vector<std::uint32_t> offsets(indptr.size()), columns(num_blocks), counts(num_blocks), c_links(num_blocks + 1);
  kernels::PatternFindings findings;
  kernels::launch_read_pattern({.indptr = indptr.data(),
                                .indices = indices.data(),
                                .index_bytes = 8,
                                .num_rows = c.at.rows,
                                .num_columns = c.at.cols,
                                .num_blocks = num_blocks},
                               offsets.data(), columns.data(), &findings, nullptr);
  REQUIRE(findings.bad_row == kernels::ArrayFindings::kNothingBad);
  REQUIRE(findings.bad_index == kernels::ArrayFindings::kNothingBad);
  unsigned long long num_pairs = 0;
  unsigned long long missing = ~0ull;
  const kernels::PatternView pattern{.offsets = offsets.data(),
                                     .columns = columns.data(),
                                     .max_row_blocks = findings.max_row_blocks,
                                     .num_pairs = &num_pairs,
                                     .missing = covers ? &missing : nullptr};
  kernels::launch_pattern_links(rows, pattern, counts.data(), nullptr, nullptr);
  CHECK(missing == given.missing);
  kernels::launch_sum_counts(counts.data(), num_blocks, c_links.data(), {}, nullptr);
  REQUIRE(c_links.back() == num_pairs);
  std::vector<kernels::Link> links(num_pairs + 1);
  kernels::launch_pattern_links(rows, pattern, c_links.data(), links.data(), nullptr);
  kernels::launch_multiply_chains(kElementType<T>,
                                  {.c_links = c_links.data(),
                                   .links = links.data(),
                                   .num_c_blocks = static_cast<std::uint32_t>(num_blocks),
                                   .num_rows = std::max(1u, rows.operands.a.index.num_rows),
                                   .m = c.m,
                                   .is_given = true,
                                   .has_exact_mma = num_pairs % 2 == 0,
                                   .num_warps = 1 + num_pairs / 2 % 8},
                                  {.a = values[0].data(),
                                   .b = values[1].data(),
                                   .c = c.values.data(),
                                   .old = covers ? c.values.data() : given.old.data(),
                                   .alpha = &given.alpha,
                                   .beta = &given.beta},
                                  nullptr);
  return c;
}

/// What src/cuda does with the kernels. Values: tuning = small windows, so that rows have several.
template <class T>
ChainMatrix<SumOf<T>> emulated_product(const ChainOperands<T>& operands, bool is_shuffled, bool has_exact_mma,
                                       kernels::ListTuning tuning, Random& random,
                                       const GivenResult<T>* given = nullptr, bool covers = false) {
  if (given != nullptr) tuning.sorted_pairs = 0;
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
  std::vector<std::uint32_t> row_links(num_rows + 1), row_blocks(num_rows), c_offsets(num_rows + 1);
  std::vector<kernels::ListPiece> pieces;
  std::vector<kernels::Link> links;
  const auto rows_of = [&](std::uint32_t begin, std::uint32_t end) {
    kernels::CompressedView some = a.view();
    some.num_rows = end - begin;
    some.rows += begin;
    some.offsets += begin;
    kernels::RowsToList rows{.operands = {.a = {.index = some, .numbers = is_shuffled ? a.numbers.data() : nullptr},
                                          .b = {.index = b.view(), .numbers = is_shuffled ? b.numbers.data() : nullptr},
                                          .b_row_index = b_row_index.data()},
                             .num_columns = b.at.cols,
                             .tuning = tuning};
    std::uint64_t num_pairs = 0;
    for (std::uint32_t x = a.offsets[begin]; x < a.offsets[end]; ++x) {
      if (b_row_index[x] != kernels::kNoRow) num_pairs += b.offsets[b_row_index[x] + 1] - b.offsets[b_row_index[x]];
    }
    pieces.assign(tuning.max_pieces(end - begin, num_pairs), {});
    rows.pieces = pieces.data();
    kernels::launch_count_links(rows.operands, {row_blocks.data() + begin, pieces.data(), &rows.totals}, tuning,
                                nullptr);
    REQUIRE(rows.totals.num_pieces <= pieces.size());
    kernels::launch_sum_counts(row_blocks.data() + begin, end - begin, row_links.data(), {}, nullptr);
    REQUIRE(row_links[end - begin] == num_pairs);
    return rows;
  };
  const auto all_rows = static_cast<std::uint32_t>(num_rows);
  kernels::RowsToList all = rows_of(0, all_rows);
  if (given != nullptr && random() % 2 == 0) all.pieces = nullptr;
  if (given != nullptr)
    return emulated_onto(operands, {a.placed(operands.a), b.placed(operands.b)}, all, *given, covers);
  if (all.totals.max_row_pairs == 0) return c;
  const auto list_rows = [&](std::uint32_t begin, std::uint32_t end) {
    const kernels::RowsToList rows = rows_of(begin, end);
    links.assign(row_links[end - begin] + std::size_t{1}, {});
    kernels::launch_list_links(
        rows, {.row_links = row_links.data(), .row_blocks = row_blocks.data() + begin, .links = links.data()}, nullptr);
    return rows;
  };
  const std::uint32_t cut = random() % 2 == 0 ? all_rows : static_cast<std::uint32_t>(random() % num_rows);
  const std::array<std::array<std::uint32_t, 2>, 2> parts{{{0, cut}, {cut, all_rows}}};
  for (const auto& [begin, end] : parts) {
    if (begin != end) list_rows(begin, end);
  }
  kernels::launch_sum_counts(row_blocks.data(), num_rows, c_offsets.data(), {}, nullptr);
  const std::uint32_t num_c_blocks = c_offsets.back();
  std::vector<std::uint32_t> c_links(num_c_blocks + std::size_t{1});
  std::vector<std::int32_t> indptr(c.at.ptr.size()), indices(num_c_blocks);
  const kernels::IndexArrays to{
      .indptr = indptr.data(), .indices = indices.data(), .index_bytes = 4, .num_rows = a.at.rows};
  kernels::launch_expand_offsets(c_offsets.data(), a.rows.data(), all_rows, to, nullptr);
  c.values.resize(indices.size() * c.m * c.m);
  const std::vector<T> a_values = a.placed(operands.a);
  const std::vector<T> b_values = b.placed(operands.b);
  for (const auto& [begin, end] : parts) {
    if (begin == end) continue;
    const kernels::RowsToList rows = list_rows(begin, end);
    const std::uint32_t first = c_offsets[begin];
    kernels::launch_fill_blocks(rows,
                                {.row_links = row_links.data(),
                                 .c_offsets = c_offsets.data() + begin,
                                 .c_links = c_links.data(),
                                 .links = links.data(),
                                 .num_c_blocks = c_offsets[end]},
                                to, nullptr);
    kernels::launch_multiply_chains(
        kElementType<T>,
        {.c_links = c_links.data() + first,
         .links = links.data(),
         .num_c_blocks = c_offsets[end] - first,
         .num_rows = end - begin,
         .m = c.m,
         .has_exact_mma = has_exact_mma,
         .num_warps = 1 + random() % 8},
        {.a = a_values.data(), .b = b_values.data(), .c = c.values.data() + std::size_t{first} * c.m * c.m}, nullptr);
  }
  c.at.ptr.assign(indptr.begin(), indptr.end());
  c.at.col.assign(indices.begin(), indices.end());
  return c;
}

constexpr kernels::ListTuning kSmallWindows{
    .piece_pairs = 512, .window = {.words = 20, .ranks = 48, .links = 200}, .slots = 32};

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
    const GivenResult<T> given = random_result(operands.a, operands.b, x % 2 == 0, random);
    CHECK(same_bits(given_oracle(operands.a, operands.b, given),
                    emulated_product(operands, x % 3 == 0, x % 2 == 0, tuning, random, &given, x % 2 == 0)));
  }
}

}  // namespace

#define SPMM_TEST_TYPE(T, name)                                                        \
  TEST_CASE("kernels of chains give the oracle's bits, emulated: " #name) {            \
    check_products<T>(std::is_same_v<T, double> ? 40 : sizeof(T) == 4 ? 10 : 4, 1000); \
  }
SPMM_ELEMENT_TYPES(SPMM_TEST_TYPE)

TEST_CASE("rows with as many pairs as are sorted, and a last column in a word of its own, emulated") {
  const auto rows_of = [](std::uint32_t cols, const std::vector<std::vector<std::uint32_t>>& ranges) {
    ChainPattern at{.rows = static_cast<std::uint32_t>(ranges.size()), .cols = cols, .ptr = {0}, .col = {}};
    for (const auto& range : ranges) {
      for (std::uint32_t column = range[0]; column < range[1]; ++column) at.col.push_back(column);
      at.ptr.push_back(static_cast<std::uint32_t>(at.col.size()));
    }
    return at;
  };
  Random random(5);
  const auto matrix = [&](const ChainPattern& at) {
    return random_chain_matrix<double>(at, 1, ChainValueKind::normal, random);
  };
  constexpr std::uint32_t kSpan = 19 * 32 + 1;
  for (const std::uint32_t span :
       {kernels::kSortedRowLinks - 15, kernels::kSortedRowLinks - 14, kernels::kSortedRowLinks - 13, kSpan}) {
    const ChainOperands<double> operands{.a = matrix(rows_of(2, {{0, 2}, {1, 2}})),
                                         .b = matrix(rows_of(kSpan, {{0, span}, {0, 14}}))};
    INFO(span + 14 << " pairs");
    for (const kernels::ListTuning& tuning : {kernels::ListTuning{}, kSmallWindows}) {
      CHECK(same_bits(chain_oracle(operands.a, operands.b), emulated_product(operands, false, true, tuning, random)));
    }
  }
}

TEST_CASE("a given pattern that is wrong, or lacks a block, emulated") {
  const auto read = [](std::vector<std::int32_t> indptr, const std::vector<std::int32_t>& indices) {
    std::vector<std::uint32_t> offsets(3), columns(indices.size());
    kernels::PatternFindings findings;
    kernels::launch_read_pattern({.indptr = indptr.data(),
                                  .indices = indices.data(),
                                  .num_rows = 2,
                                  .num_columns = 4,
                                  .num_blocks = indices.size()},
                                 offsets.data(), columns.data(), &findings, nullptr);
    return findings;
  };
  constexpr auto kNothing = kernels::ArrayFindings::kNothingBad;
  CHECK(read({0, 2, 3}, {0, 3, 1}).bad_index == kNothing);
  CHECK(read({0, 2, 3}, {0, 3, 1}).max_row_blocks == 2);
  CHECK(read({0, 2, 3}, {0, 4, 1}).bad_index == 1);
  CHECK(read({0, 2, 3}, {0, 0, 1}).bad_index == 1);
  CHECK(read({0, 1, 3}, {3, 2, 1}).bad_index == 2);
  CHECK(read({0, 1, 3}, {3, -2, 1}).bad_index == 1);
  CHECK(read({1, 3, 3}, {0, 1, 2}).bad_row == 0);
  CHECK(read({0, 3, 2}, {0, 1, 2}).bad_row == 1);
  CHECK(read({0, 1, 2}, {0, 1, 2}).bad_row == 1);

  Random random(2);
  const auto matrix = [&] {
    return random_chain_matrix<double>(random_pattern(30, 30, 0.3, false, random), 1, ChainValueKind::normal, random);
  };
  const ChainOperands<double> operands{.a = matrix(), .b = matrix()};
  GivenResult<double> given = random_result(operands.a, operands.b, true, random);
  const ChainPattern product = chain_oracle(operands.a, operands.b).at;
  const std::uint32_t end = product.ptr[8];
  given.missing = 7ull << 32 | product.col[end - 2];
  for (const std::uint32_t column : {product.col[end - 2], product.col[end - 1]}) {  // not met by the first lane
    given.at.col.erase(std::find(given.at.col.begin() + given.at.ptr[7], given.at.col.end(), column));
  }
  for (std::uint32_t row = 8; row <= 30; ++row) given.at.ptr[row] -= 2;
  emulated_product(operands, false, true, kSmallWindows, random, &given, true);
}

TEST_CASE("the largest absolute value of integers, emulated") {
  const auto largest_of = []<class T>(const std::vector<T>& values) {
    unsigned long long largest = 0;
    kernels::launch_find_largest(kElementType<T>, values.data(), values.size(), &largest, nullptr);
    return largest;
  };
  CHECK(largest_of(std::vector<std::int8_t>{}) == 0);
  CHECK(largest_of(std::vector<std::int8_t>{3, -128, 127}) == 128);
  CHECK(largest_of(std::vector<std::uint8_t>{3, 255, 127}) == 255);
  CHECK(largest_of(std::vector<std::int64_t>{5, std::numeric_limits<std::int64_t>::min()}) == 1ull << 63);
  std::vector<std::int32_t> many(5000, -7);
  many[4321] = 1000;
  CHECK(largest_of(many) == 1000);
}

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
