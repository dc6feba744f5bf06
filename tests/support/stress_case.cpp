#include "support/stress_case.hpp"

#include <array>
#include <cstddef>
#include <sstream>
#include <tuple>

#include "support/matrices.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace spmm::test {
namespace {

constexpr std::uint32_t kSmallGrid = 2000;
constexpr std::array kPatterns = {"uniform",     "band",   "diagonal", "row",  "column",  "full",  "arrow",  "hub",
                                  "sparse-rows", "corner", "groups",   "rmat", "stencil", "empty", "borders"};

/// One of the four quarters of a grid, again and again, with the usual probabilities.
BlockIndex rmat_position(std::uint32_t nb, Random& random) {
  std::uint64_t i = 0;
  std::uint64_t j = 0;
  for (std::uint64_t side = 1; side < nb; side *= 2) {
    const std::uint64_t draw = random.below(100);
    i = 2 * i + (draw >= 76 ? 1 : 0);
    j = 2 * j + ((draw >= 57 && draw < 76) || draw >= 95 ? 1 : 0);
  }
  return {.i = static_cast<std::uint32_t>(i % nb), .j = static_cast<std::uint32_t>(j % nb)};
}

/// Rows whose lengths are near powers of two, side by side or spread: borders of vectors, warps, tiles and windows.
std::vector<BlockIndex> border_rows(std::uint32_t nb, std::uint64_t most, Random& random) {
  std::vector<BlockIndex> positions;
  const std::uint32_t longest = static_cast<std::uint32_t>(std::min<std::uint64_t>(nb, most));
  while (positions.size() < most) {
    const std::uint32_t border = 1u << random.below(15);
    const std::uint32_t length = std::clamp(border - 1 + static_cast<std::uint32_t>(random.below(3)), 1u, longest);
    const std::uint32_t step = random.one_in(2) ? 1 : nb / length;
    const auto first = static_cast<std::uint32_t>(random.below(nb - (length - 1) * step));
    const auto row = static_cast<std::uint32_t>(random.below(nb));
    for (std::uint32_t x = 0; x < length; ++x) positions.push_back({.i = row, .j = first + x * step});
    if (random.one_in(8)) break;
  }
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

/// About `most` distinct positions on a grid of nb x nb, ascending.
std::vector<BlockIndex> positions_of(const std::string& pattern, std::uint32_t nb, std::uint64_t most, Random& random) {
  std::vector<BlockIndex> positions;
  const auto any = [&] { return static_cast<std::uint32_t>(random.below(nb)); };
  const auto add = [&](std::int64_t i, std::int64_t j) {
    const auto inside = [&](std::int64_t x) { return std::clamp<std::int64_t>(x, 0, std::int64_t{nb} - 1); };
    positions.push_back({.i = static_cast<std::uint32_t>(inside(i)), .j = static_cast<std::uint32_t>(inside(j))});
  };
  const std::uint32_t special = any();
  const auto width = static_cast<std::int64_t>(random.up_to(6));
  const auto group = static_cast<std::uint32_t>(random.up_to(16));
  std::int64_t side = 1;
  while ((side + 1) * (side + 1) <= std::int64_t{nb}) ++side;
  if (pattern == "empty") return positions;
  if (pattern == "borders") return border_rows(nb, most, random);
  const bool is_full = pattern == "full" && std::uint64_t{nb} * nb <= most;
  for (std::uint64_t x = 0; x < (is_full ? std::uint64_t{nb} * nb : most); ++x) {
    const std::uint32_t i = any();
    const std::uint32_t j = any();
    if (is_full) {
      add(static_cast<std::int64_t>(x / nb), static_cast<std::int64_t>(x % nb));
    } else if (pattern == "band") {
      add(i, i + static_cast<std::int64_t>(random.below(2 * width + 1)) - width);
    } else if (pattern == "diagonal") {
      add(i, i);
    } else if (pattern == "row") {
      add(x % 3 == 0 ? i : special, j);
    } else if (pattern == "column") {
      add(i, x % 3 == 0 ? j : special);
    } else if (pattern == "arrow") {
      add(x % 3 == 0 ? 0 : i, x % 3 == 1 ? 0 : (x % 3 == 0 ? j : i));
    } else if (pattern == "hub") {
      add(x % 2 == 0 ? special : i, x % 2 == 0 ? j : special);
    } else if (pattern == "sparse-rows") {
      add(i / 4 * 4, j);
    } else if (pattern == "corner") {
      add(nb - 1 - i % std::min(nb, 5u), nb - 1 - j % std::min(nb, 5u));
    } else if (pattern == "groups") {
      add(i, i / group * group + j % group);
    } else if (pattern == "rmat") {
      positions.push_back(rmat_position(nb, random));
    } else if (pattern == "stencil") {  // five points of a square grid, row by row
      const auto at = static_cast<std::int64_t>((special + x / 5) % nb);
      add(at, at + std::array<std::int64_t, 5>{-side, -1, 0, 1, side}[x % 5]);
    } else {
      add(i, j);
    }
  }
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

constexpr std::array<std::uint32_t, 12> kEnds = {0, 1, 2, 127, 128, 255, 256, 257, 2047, 32767, 65534, 65535};

/// Blocks at these positions in random order, or in the order of rows, forwards or backwards. Elements: from one
/// constant to the whole range, or ends of ranges only; some or many zeros, now and then one that is larger than all
/// others.
BlockMatrix make_matrix(const std::vector<BlockIndex>& positions, std::uint32_t nb, std::uint32_t m, Random& random) {
  const std::uint32_t high = random.of(kEnds);
  const std::uint32_t low = random.one_in(3) ? high : random.one_in(2) ? std::min(high, 1u) : 0;
  const std::uint64_t zero_in = random.one_in(3) ? 1 + random.below(8) : 0;  // one in so many is zero
  const bool has_zero_blocks = random.one_in(2);
  const bool has_ends_only = random.one_in(8);
  BlockMatrix matrix{.n = nb * m, .m = m, .index = positions, .values = {}};
  if (random.one_in(8)) {
    if (random.one_in(2)) std::reverse(matrix.index.begin(), matrix.index.end());
  } else {
    for (std::size_t x = matrix.index.size(); x > 1; --x) std::swap(matrix.index[x - 1], matrix.index[random.below(x)]);
  }
  const std::size_t elements = std::size_t{m} * m;
  matrix.values.resize(matrix.index.size() * elements);
  for (std::uint16_t& value : matrix.values) {
    const bool is_zero = zero_in != 0 && random.one_in(zero_in);
    const std::uint32_t other =
        has_ends_only ? random.of(kEnds) : low + static_cast<std::uint32_t>(random.below(high - low + 1));
    value = static_cast<std::uint16_t>(is_zero ? 0 : other);
  }
  for (std::size_t x = 0; x < matrix.index.size(); ++x) {
    if (has_zero_blocks && random.one_in(20))
      std::fill_n(matrix.values.begin() + static_cast<std::ptrdiff_t>(x * elements), elements, 0);
  }
  if (!matrix.values.empty() && random.one_in(8)) {
    matrix.values[random.below(matrix.values.size())] = static_cast<std::uint16_t>(random.of(kEnds));
  }
  return matrix;
}

std::uint64_t count_pairs(const std::vector<BlockIndex>& a, const std::vector<BlockIndex>& b) {
  std::uint64_t pairs = 0;
  for (const BlockIndex& block : a) {
    const auto first = std::lower_bound(b.begin(), b.end(), BlockIndex{.i = block.j, .j = 0});
    for (auto y = first; y != b.end() && y->i == block.j; ++y) ++pairs;
  }
  return pairs;
}

/// Gives one element of C a sum just below, at or just above 2^32 - 1.
void aim_at_limit(BlockMatrix& a, BlockMatrix& b, Random& random) {
  const std::uint32_t m = a.m;
  const std::uint32_t i = random.of(a.index).i;
  const std::uint32_t j = random.of(b.index).j;
  const std::uint32_t row = static_cast<std::uint32_t>(random.below(m));
  const std::uint32_t col = static_cast<std::uint32_t>(random.below(m));
  std::vector<std::pair<std::uint16_t*, std::uint16_t*>> terms;
  for (std::size_t x = 0; x < a.index.size(); ++x) {
    for (std::size_t y = 0; a.index[x].i == i && y < b.index.size(); ++y) {
      if (b.index[y].i != a.index[x].j || b.index[y].j != j) continue;
      for (std::uint32_t t = 0; t < m; ++t) {
        terms.emplace_back(&a.values[(x * m + row) * m + t], &b.values[(y * m + t) * m + col]);
      }
    }
  }
  if (terms.size() < 3) return;
  std::uint64_t left = 0xFFFF'FFFEu + random.below(random.one_in(2) ? 3 : 70'000);
  const std::uint64_t share = left / terms.size() + 1;  // of a term, where all are to take part
  const bool is_even = random.one_in(2);
  std::swap(terms.back(), terms[random.below(terms.size())]);  // where the remainder goes: factor 1
  for (auto& [x, y] : terms) {
    const bool is_last = &x == &terms.back().first;
    *x = is_last ? 1 : 65535;
    *y = static_cast<std::uint16_t>(
        std::min<std::uint64_t>({65535, left / *x, is_even && !is_last ? share / *x + 1 : 65535}));
    left -= std::uint64_t{*x} * *y;
  }
}

/// Products of one in so many blocks of A vanish: these are zero outside their first columns, B in its first rows.
void let_vanish(BlockMatrix& a, BlockMatrix& b, Random& random) {
  const std::size_t m = a.m;
  const std::uint64_t one_in = random.up_to(100);
  for (std::size_t e = 0; e < b.values.size(); ++e) b.values[e] = e % (m * m) < m ? 0 : b.values[e];
  for (std::size_t x = 0; x < a.index.size(); ++x) {
    if (!random.one_in(one_in)) continue;
    for (std::size_t e = x * m * m; e < (x + 1) * m * m; ++e) a.values[e] = e % m == 0 ? a.values[e] : 0;
  }
}

/// Long lists of pairs of blocks whose elements are all alike, or so in one row of elements: sums that leave 31 or 32
/// bits, or what sums of digits hold, between one pair and the next.
Operands long_lists(std::uint32_t m, std::uint64_t max_pairs, Random& random) {
  constexpr std::array<std::uint32_t, 10> kElements = {1, 131, 255, 511, 700, 2047, 4095, 32767, 32768, 65535};
  constexpr std::array<std::uint64_t, 5> kDigits = {255 * 255, 255 * 32768, 255 * 65535, 65535, 2047 * 2047};
  const std::uint32_t of_a = random.of(kElements);
  const std::uint32_t of_b = random.of(kElements);
  const std::uint32_t columns = random.one_in(2) ? 2 : 40;  // few are listed, many are added up in memory
  const std::uint64_t term = random.one_in(2) ? std::uint64_t{of_a} * of_b : random.of(kDigits);
  const std::uint64_t fit =
      (std::uint64_t{1} << 31 << random.below(2)) / (term * m) * random.up_to(3) + random.below(6);
  const std::uint64_t most = std::max<std::uint64_t>(max_pairs / 2 / columns, 3);
  const auto length = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(fit, 3, most) - 2);
  const auto nb = length + columns + static_cast<std::uint32_t>(random.below(100));
  const std::uint32_t lines = random.one_in(2) ? m : static_cast<std::uint32_t>(random.below(m));
  MatrixBuilder a(nb, m, random.below(1000));
  MatrixBuilder b(nb, m, random.below(1000));
  for (std::uint32_t t = 0; t < length; ++t) {
    a.add_constant(nb - 1, t, lines == m ? of_a : 0);
    for (std::uint32_t x = 0; x < m && lines < m; ++x) a.element(lines, x) = static_cast<std::uint16_t>(of_a);
    if (t % 2 == 0) b.add_constant(t, 0, of_b);  // half a list
    for (std::uint32_t j = 1; j < columns; ++j) b.add_constant(t, nb - j, of_b);
    if (random.one_in(8)) a.add_random(0, t, of_a);
  }
  return {shuffled(a.matrix(), 1), shuffled(b.matrix(), 2)};
}

std::uint32_t random_side(Random& random) {
  constexpr std::array<std::uint32_t, 8> kUsual = {1, 2, 4, 8, 16, 24, 32, 64};
  if (random.one_in(2)) return random.of(kUsual);
  return static_cast<std::uint32_t>(1 + random.below(random.one_in(4) ? 64 : 20));
}

/// Operands of the way must be small enough, and options those that it takes.
void settle_way(StressCase& c) {
  constexpr std::uint32_t kMostRows = 100'000;  // of arrays: indptr
  if (c.way != Way::memory && c.way != Way::files && c.a.n / c.a.m > kMostRows) c.way = Way::memory;
  if (c.way != Way::device && c.way != Way::plan) return;
  constexpr std::array kOfPlans = {"auto", "rows", "row-spread", "pair-list"};
  const auto is_ours = [&](const char* kernel) { return c.options.kernel == kernel; };
  if (c.way == Way::plan && std::none_of(kOfPlans.begin(), kOfPlans.end(), is_ours)) c.options.kernel = "auto";
  c.options.transpose_a = c.options.transpose_b = c.options.verify_full = false;
  c.options.verify_blocks = 0;
  c.options.on_saturation = OnSaturation::report;
}

/// Kernels that take time or memory with the square of the grid's side.
bool is_for_small_grids(const std::string& kernel) {
  return kernel == "two-pointer" || kernel == "binary-search" || kernel == "host-driven" || kernel.starts_with("dense");
}

/// How the product runs: everything but the operands. The memory limit is drawn when their size is known.
void choose_way(StressCase& c, const StressChoice& choice, Random& random) {
  constexpr std::uint64_t kRanksIn = 400;  // starting spmm-mpi takes half a second
  c.options.backend = choice.backend;
  c.options.kernel = choice.kernels.empty() || random.one_in(3) ? "auto" : random.of(choice.kernels);
  c.options.force = true;  // of host-driven
  c.options.transpose_a = random.one_in(4);
  c.options.transpose_b = random.one_in(4);
  c.options.num_threads = static_cast<unsigned>(1 + random.below(8));
  if (random.one_in(8)) c.options.verify_blocks = random.up_to(64);
  c.options.verify_full = random.one_in(8);
  if (random.one_in(10)) c.options.on_saturation = OnSaturation::error;
  c.is_large = !is_for_small_grids(c.options.kernel) && random.one_in(60);
  const bool in_files = random.one_in(3) || (c.is_large && random.one_in(2));
  c.way = in_files ? Way::files : random.one_in(4) ? Way::arrays : Way::memory;
  if (choice.has_device_ways && random.one_in(4)) c.way = random.one_in(2) ? Way::device : Way::plan;
  if (!choice.isas.empty() && !random.one_in(3)) c.isa = random.of(choice.isas);
  if (choice.has_ranks && random.one_in(kRanksIn)) {
    c.num_ranks = static_cast<int>(1 + random.below(7));
    c.way = Way::files;
    c.options.kernel = "auto";
  }
}

/// Draws block rows of C; all others leave the expected product.
void choose_rows(StressCase& c, Random& random) {
  const std::uint32_t nb = c.expected.n / c.expected.m;
  RowRange& rows = c.options.rows;
  rows.first = static_cast<std::uint32_t>(random.below(std::uint64_t{nb} + 1));
  if (!random.one_in(4))
    rows.end = static_cast<std::uint32_t>(rows.first + random.below(std::uint64_t{nb} - rows.first + 1));
  const auto first = std::partition_point(c.expected.index.begin(), c.expected.index.end(),
                                          [&](BlockIndex at) { return at.i < rows.first; });
  const auto end = std::partition_point(first, c.expected.index.end(), [&](BlockIndex at) { return at.i < rows.end; });
  const auto values = [&](auto at) {
    return c.expected.values.begin() + (at - c.expected.index.begin()) * std::ptrdiff_t{c.expected.m} * c.expected.m;
  };
  c.expected.values = {values(first), values(end)};
  c.expected.index = {first, end};
}

std::vector<BlockIndex> rows_of(std::vector<BlockIndex> blocks, const RowRange& rows) {
  std::erase_if(blocks, [&](BlockIndex at) { return at.i < rows.first || at.i >= rows.end; });
  return blocks;
}

/// Draws the sides of arrays, which need not be square, around all blocks.
void choose_sides(StressCase& c, bool has_rows, Random& random) {
  const std::uint32_t nb = c.a.n / c.a.m;
  std::fill_n(c.sides, 3, nb);
  if (has_rows || c.options.transpose_a || c.options.transpose_b || random.one_in(3)) return;
  std::uint32_t least[3] = {1, 1, 1};
  for (const BlockIndex& at : c.a.index) {
    least[0] = std::max(least[0], at.i + 1);
    least[1] = std::max(least[1], at.j + 1);
  }
  for (const BlockIndex& at : c.b.index) {
    least[1] = std::max(least[1], at.i + 1);
    least[2] = std::max(least[2], at.j + 1);
  }
  for (std::size_t x = 0; x < 3; ++x) {
    c.sides[x] = least[x] + static_cast<std::uint32_t>(random.below(std::uint64_t{nb} - least[x] + 1));
  }
}

/// Draws elements of C that are kept; all others leave the expected product.
void choose_selection(StressCase& c, Random& random) {
  Selection& selection = c.options.selection;
  selection.upper_triangle = random.one_in(2);
  selection.no_diagonal = random.one_in(2);
  if (random.one_in(2)) {
    selection.at_least = c.expected.values.empty() || random.one_in(4) ? static_cast<std::uint32_t>(random.below(4))
                                                                       : random.of(c.expected.values);
  }
  if (random.one_in(2)) selection.keep = static_cast<std::uint32_t>(random.up_to(random.one_in(4) ? 0xFFFF'FFFFu : 40));
  Selected selected = oracle_select(c.expected, selection);
  c.expected = std::move(selected.c);
  c.num_dropped = selected.num_dropped;
}

/// Gives an operand a block outside, or one block twice.
void break_operand(StressCase& c, Random& random) {
  BlockMatrix& matrix = random.one_in(2) ? c.a : c.b;
  const std::size_t count = matrix.index.size();
  if (count == 0) return;
  std::size_t later = random.below(count);
  if (random.one_in(2)) {
    std::uint32_t& index = random.one_in(2) ? matrix.index[later].i : matrix.index[later].j;
    const std::uint32_t nb = matrix.n / matrix.m;
    index = random.one_in(2) ? nb : static_cast<std::uint32_t>(nb + random.below(0x1'0000'0000u - nb));
    c.bad_records = {later};
  } else if (count > 1) {
    std::size_t earlier = random.below(count - 1);
    earlier += earlier >= later ? 1 : 0;
    if (earlier > later) std::swap(earlier, later);
    matrix.index[later] = matrix.index[earlier];
    c.bad_records = {earlier, later};
  }
  if (c.is_square) (&matrix == &c.a ? c.b : c.a) = matrix;
}

void choose_memory_limit(StressCase& c, Random& random) {
  constexpr std::array kShares = {4.0, 2.0, 1.2, 1.0, 0.8, 0.5, 0.2, 0.1};
  const std::uint64_t least_bytes = 10'000u << random.below(4);
  constexpr std::uint64_t kDeviceWork = 66u << 20;  // in addition to the operands, for most kernels
  const bool on_cuda = c.options.backend == Backend::cuda;
  const auto operand_bytes = static_cast<double>((c.a.values.size() + c.b.values.size()) * sizeof(std::uint16_t) +
                                                 (c.a.index.size() + c.b.index.size()) * sizeof(BlockIndex));
  if (random.one_in(c.is_large ? 2 : 3)) {
    c.options.memory_limit_bytes =
        least_bytes + static_cast<std::uint64_t>(operand_bytes * random.of(kShares)) + (on_cuda ? kDeviceWork : 0);
  }
  // A device takes longer to start than a product takes on it.
  c.is_warm = c.options.memory_limit_bytes == 0 && c.num_ranks == 0 && (random.one_in(2) || on_cuda);
  if (c.is_warm) c.options.max_threads = std::exchange(c.options.num_threads, 0);
}

std::uint32_t random_grid(std::uint32_t m, const std::string& kernel, Random& random) {
  if (is_for_small_grids(kernel)) {
    return static_cast<std::uint32_t>(random.up_to(std::max<std::uint32_t>(1, std::min(kSmallGrid, 1000 / m))));
  }
  if (random.one_in(6)) {  // near a border of bitmaps, keys or counters
    const std::uint32_t border = 1u << random.below(kernel == "row-spread" ? 14 : 22);
    return std::max(1u, border - 1 + static_cast<std::uint32_t>(random.below(3)));
  }
  // Few blocks on the largest grid there is; row-spread goes through every block column.
  if (random.one_in(12) && kernel != "row-spread") {
    return static_cast<std::uint32_t>(0xFFFF'FFFFu / m - random.below(3));
  }
  return static_cast<std::uint32_t>(random.up_to(3000));
}

/// Draws the operands as they are multiplied. Returns what they are.
std::string draw_operands(StressCase& c, const StressChoice& choice, Random& random) {
  const std::uint32_t m = random_side(random);
  const std::uint64_t cube = std::uint64_t{m} * m * m;
  // Most products are small, so that there are many.
  const std::uint64_t work = choice.max_work / (c.is_large || random.one_in(100) ? 1 : random.one_in(6) ? 15 : 150);
  const std::uint64_t max_pairs = std::clamp<std::uint64_t>(work / cube, 8, 2'000'000);
  const std::uint32_t nb = c.is_large ? static_cast<std::uint32_t>((200u << random.below(6)) + random.below(200))
                                      : random_grid(m, c.options.kernel, random);
  if (!c.is_large && random.one_in(15)) {
    const bool for_small = is_for_small_grids(c.options.kernel);
    std::tie(c.a, c.b) = long_lists(m, std::min<std::uint64_t>(10 * max_pairs, for_small ? 3000 : 20'000), random);
    return "long lists";
  }
  const std::array<std::string, 2> patterns = {random.one_in(3) ? kPatterns[0] : random.of(kPatterns),
                                               random.one_in(3) ? kPatterns[0] : random.of(kPatterns)};
  const std::uint64_t most_blocks = random.one_in(8) ? std::max(800u, 200'000 / (m * m)) : 800;
  std::uint64_t most = random.one_in(20) ? 1 : random.up_to(std::min(most_blocks, 8 * max_pairs));
  if (c.is_large) most = 3000 + random.below(2'500'000 / (m * m + 30));
  std::vector<BlockIndex> a;
  std::vector<BlockIndex> b;
  do {
    a = positions_of(patterns[0], nb, std::max<std::uint64_t>(most, 1), random);
    b = positions_of(patterns[1], nb, std::max<std::uint64_t>(most, 1), random);
    if (nb > a.size() && !a.empty() && !random.one_in(4)) {  // else nearly nothing meets
      for (BlockIndex& block : b) block.i = random.of(a).j;
      std::sort(b.begin(), b.end());
      b.erase(std::unique(b.begin(), b.end()), b.end());
    }
    most /= 2;
  } while (count_pairs(a, b) > max_pairs && most > 0);
  c.a = make_matrix(a, nb, m, random);
  c.b = make_matrix(b, nb, m, random);
  if (!a.empty() && !b.empty() && random.one_in(4)) {
    for (std::uint64_t x = random.up_to(16); x > 0; --x) aim_at_limit(c.a, c.b, random);
  }
  if (random.one_in(40)) let_vanish(c.a, c.b, random);
  return patterns[0] + " x " + patterns[1];
}

/// Whether the oracle computes the product in little time and memory: only that of the first operands was bounded.
bool is_small(const BlockMatrix& a, const BlockMatrix& b) {
  constexpr std::uint64_t kMostElements = 20'000'000;  // of all pairs
  std::vector<BlockIndex> sorted = b.index;
  std::sort(sorted.begin(), sorted.end());
  return count_pairs(a.index, sorted) * a.m * a.m <= kMostElements;
}

}  // namespace

Operands random_operands(std::uint64_t seed) {
  Random random(seed);
  StressCase c;
  (void)draw_operands(c, {}, random);
  return {std::move(c.a), std::move(c.b)};
}

StressCase make_type_case(std::uint64_t seed, const StressChoice& choice) {
  StressCase c;
  c.seed = seed;
  Random random(seed);
  c.options.backend = choice.backend;
  c.options.num_threads = static_cast<unsigned>(1 + random.below(8));
  if (!choice.isas.empty()) c.isa = random.of(choice.isas);
  c.way = choice.has_device_ways && random.one_in(2) ? Way::device_types : Way::types;
  if (random.one_in(4)) {
    c.options.memory_limit_bytes = (choice.backend == Backend::cuda ? 100'000u : 1000u) << random.below(12);
  }
  c.is_warm = c.options.memory_limit_bytes == 0;
  if (c.is_warm) c.options.max_threads = std::exchange(c.options.num_threads, 0);
  std::ostringstream text;
  text << "seed " << seed << ": " << kWays[static_cast<std::size_t>(c.way)] << ", limit "
       << c.options.memory_limit_bytes << ", threads " << c.options.num_threads + c.options.max_threads << ", "
       << c.isa;
  c.text = text.str();
  return c;
}

StressCase make_stress_case(std::uint64_t seed, const StressChoice& choice) {
  Random random(seed);
  StressCase c;
  c.seed = seed;
  choose_way(c, choice, random);
  const std::string pattern = draw_operands(c, choice, random);
  settle_way(c);
  c.is_square = random.one_in(20) && is_small(c.a, c.a);
  if (c.is_square) c.b = c.a;
  if (c.way == Way::files && !c.is_square && random.one_in(12) &&
      is_small(c.a, transposed(c.a))) {  // one file, once transposed
    c.b = transposed(c.a);
    c.options.transpose_b = !c.options.transpose_a;
    c.is_square = true;
  }
  c.expected = oracle_multiply(c.a, c.b);
  const std::vector<BlockIndex> blocks_of_a = c.a.index;
  std::vector<BlockIndex> blocks_of_b = c.b.index;
  std::sort(blocks_of_b.begin(), blocks_of_b.end());
  if (c.options.transpose_a) c.a = transposed(c.a);
  if (c.options.transpose_b) c.b = transposed(c.b);
  c.is_square = c.is_square && c.a.index == c.b.index && c.a.values == c.b.values;
  choose_memory_limit(c, random);
  const bool is_on_device = c.way == Way::device || c.way == Way::plan;
  const bool has_rows = !is_on_device && random.one_in(8);
  if (has_rows) choose_rows(c, random);
  choose_sides(c, has_rows, random);
  const bool in_arrays = is_on_device || c.way == Way::arrays;
  // Of rows that are left out few errors are found.
  if (!has_rows && !in_arrays && random.one_in(12)) break_operand(c, random);
  if (c.num_ranks == 0 && !is_on_device && random.one_in(20)) c.cancel_at = random.up_to(64);
  if (c.way != Way::plan && random.one_in(4)) choose_selection(c, random);
  c.num_pairs = 0;
  for (const BlockIndex& at : rows_of(blocks_of_a, c.options.rows)) {
    const BlockIndex first{.i = at.j, .j = c.options.selection.upper_triangle ? at.i : 0};
    const auto begin = std::lower_bound(blocks_of_b.begin(), blocks_of_b.end(), first);
    c.num_pairs += static_cast<std::uint64_t>(
        std::partition_point(begin, blocks_of_b.end(), [&](BlockIndex b) { return b.i == at.j; }) - begin);
  }

  std::ostringstream out;
  out << "seed " << seed << ": n " << c.a.n << ", m " << c.a.m << ", " << pattern
      << (c.is_square ? ", squared, " : ", ") << c.a.index.size() << " x " << c.b.index.size() << " blocks, kernel "
      << c.options.kernel << ", " << (c.isa.empty() ? "widest" : c.isa) << ", "
      << c.options.num_threads + c.options.max_threads << " threads, limit " << c.options.memory_limit_bytes
      << (c.options.transpose_a ? ", A transposed" : "") << (c.options.transpose_b ? ", B transposed" : "") << ", "
      << kWays[static_cast<std::size_t>(c.way)] << (c.is_warm ? ", warm engine" : "") << ", verify "
      << (c.options.verify_full ? "full" : std::to_string(c.options.verify_blocks))
      << (c.options.on_saturation == OnSaturation::error ? ", no saturation" : "");
  const Selection& selection = c.options.selection;
  if (!selection.is_all()) {
    out << (selection.upper_triangle ? ", triangle" : "") << (selection.no_diagonal ? ", no diagonal" : "")
        << ", at least " << selection.at_least << ", keep " << selection.keep;
  }
  if (has_rows) out << ", rows " << c.options.rows.first << ":" << c.options.rows.end;
  for (const std::size_t record : c.bad_records) out << ", bad record " << record;
  if (c.cancel_at != 0) out << ", cancelled at step " << c.cancel_at;
  if (c.num_ranks != 0) out << ", " << c.num_ranks << " ranks";
  c.text = out.str();
  return c;
}

}  // namespace spmm::test
