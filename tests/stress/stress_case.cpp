#include "stress/stress_case.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <utility>

#include "spmm/multiply.hpp"
#include "support/gpu_kernels.hpp"

namespace spmm::test {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  /// From 1 to bound, small ones as often as large ones.
  std::uint64_t up_to(std::uint64_t bound) {
    std::uint64_t size = 1;
    while (size < bound && !one_in(8)) size *= 2;
    return 1 + below(std::min(size, bound));
  }
  template <class List>
  const auto& of(const List& list) {
    return list[below(list.size())];
  }

 private:
  std::mt19937_64 engine_;
};

using Positions = std::set<std::pair<std::uint32_t, std::uint32_t>>;
constexpr std::array kPatterns = {"uniform", "band",        "diagonal", "row",    "column", "full",
                                  "arrow",   "sparse-rows", "corner",   "groups", "empty"};

std::uint32_t clipped(std::int64_t x, std::uint32_t nb) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(x, 0, std::int64_t{nb} - 1));
}

/// At most `most` distinct positions on a grid of nb x nb.
Positions positions_of(const std::string& pattern, std::uint32_t nb, std::uint64_t most, Random& random) {
  Positions positions;
  const auto any = [&] { return static_cast<std::uint32_t>(random.below(nb)); };
  const std::uint32_t special = any();
  const auto width = static_cast<std::int64_t>(random.up_to(6));
  const auto group = static_cast<std::uint32_t>(random.up_to(16));
  if (pattern == "empty") return positions;
  if (pattern == "full" && std::uint64_t{nb} * nb <= most) {
    for (std::uint32_t i = 0; i < nb; ++i) {
      for (std::uint32_t j = 0; j < nb; ++j) positions.emplace(i, j);
    }
    return positions;
  }
  for (std::uint64_t x = 0; x < most; ++x) {
    const std::uint32_t i = any();
    const std::uint32_t j = any();
    if (pattern == "band") {
      positions.emplace(i,
                        clipped(std::int64_t{i} + static_cast<std::int64_t>(random.below(2 * width + 1)) - width, nb));
    } else if (pattern == "diagonal") {
      positions.emplace(i, i);
    } else if (pattern == "row") {
      positions.emplace(x % 3 == 0 ? i : special, j);
    } else if (pattern == "column") {
      positions.emplace(i, x % 3 == 0 ? j : special);
    } else if (pattern == "arrow") {
      positions.emplace(x % 3 == 0 ? 0 : i, x % 3 == 1 ? 0 : (x % 3 == 0 ? j : i));
    } else if (pattern == "sparse-rows") {
      positions.emplace(i / 4 * 4, j);
    } else if (pattern == "corner") {
      positions.emplace(nb - 1 - i % std::min(nb, 5u), nb - 1 - j % std::min(nb, 5u));
    } else if (pattern == "groups") {
      positions.emplace(i, clipped(std::int64_t{i} / group * group + j % group, nb));
    } else {
      positions.emplace(i, j);
    }
  }
  return positions;
}

/// Elements of one operand.
struct Values {
  std::string name;
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  std::uint32_t zero_in = 0;  ///< one in so many is zero; 0: none more
};

Values random_values(Random& random) {
  constexpr std::array<std::uint32_t, 12> kEnds = {0, 1, 2, 127, 128, 255, 256, 257, 2047, 32767, 65534, 65535};
  Values values;
  values.high = random.of(kEnds);
  values.low = random.one_in(3) ? values.high : 0;
  values.zero_in = random.one_in(3) ? 1 + static_cast<std::uint32_t>(random.below(8)) : 0;
  return values;
}

BlockMatrix make_matrix(const Positions& positions, std::uint32_t nb, std::uint32_t m, const Values& values,
                        Random& random) {
  BlockMatrix matrix{.n = nb * m, .m = m, .index = {}, .values = {}};
  for (const auto& [i, j] : positions) matrix.index.push_back({.i = i, .j = j});
  for (std::size_t x = matrix.index.size(); x > 1; --x) std::swap(matrix.index[x - 1], matrix.index[random.below(x)]);
  const std::size_t elements = std::size_t{m} * m;
  matrix.values.resize(matrix.index.size() * elements);
  for (std::uint16_t& value : matrix.values) {
    const bool is_zero = values.zero_in != 0 && random.one_in(values.zero_in);
    value = is_zero ? std::uint16_t{0}
                    : static_cast<std::uint16_t>(values.low + random.below(values.high - values.low + 1));
  }
  for (std::size_t x = 0; x < matrix.index.size(); ++x) {
    if (random.one_in(20)) std::fill_n(matrix.values.begin() + static_cast<std::ptrdiff_t>(x * elements), elements, 0);
  }
  return matrix;
}

std::uint64_t count_pairs(const Positions& a, const Positions& b) {
  std::map<std::uint32_t, std::uint64_t> per_row;
  for (const auto& [i, j] : b) ++per_row[i];
  std::uint64_t pairs = 0;
  for (const auto& [i, j] : a) {
    const auto row = per_row.find(j);
    if (row != per_row.end()) pairs += row->second;
  }
  return pairs;
}

/// Values of B such that the longest sums come close to 2^32 - 1, from below and from above.
void aim_at_limit(StressCase& c, Random& random) {
  for (std::uint16_t& value : c.a.values) value = 65535;
  const std::uint64_t terms = c.a.m * random.up_to(64);
  const std::uint64_t value = std::min<std::uint64_t>(65535, 0xFFFF'FFFFull / (65535 * terms) + random.below(3));
  for (std::uint16_t& b : c.b.values) b = static_cast<std::uint16_t>(value);
}

std::uint32_t random_side(Random& random) {
  constexpr std::array<std::uint32_t, 8> kUsual = {1, 2, 4, 8, 16, 24, 32, 64};
  if (random.one_in(2)) return random.of(kUsual);
  return static_cast<std::uint32_t>(1 + random.below(random.one_in(4) ? 64 : 20));
}

/// Kernels that run for ever, or need memory in proportion to the square, on large grids.
bool is_for_small_grids(const std::string& kernel, Backend backend) {
  if (backend != Backend::cuda) return kernel.starts_with("dense");
  return kernel == "two-pointer" || kernel == "binary-search" || kernel == "host-driven" || kernel.starts_with("dense");
}

/// Kernels that go through every block column of a row that has pairs: a minute on the largest grid.
bool visits_all_columns(const std::string& kernel) {
  return kernel == "row-spread";
}

std::string random_kernel(const StressLimits& limits, Random& random) {
  if (!limits.kernel.empty()) return limits.kernel;
  std::vector<std::string> names = {"auto", "auto"};
  for (const KernelInfo& kernel : kernel_names()) {
    if (kernel.backend == limits.backend) names.push_back(kernel.name);
  }
  return random.of(names);
}

void choose_way(StressCase& c, const StressLimits& limits, Random& random) {
  const std::uint64_t draw = random.below(100);
  c.way = draw < 40 ? StressWay::memory : draw < 85 ? StressWay::files : StressWay::parts;
  if (limits.has_ranks && draw >= 98) c.way = StressWay::ranks;
  c.options.backend = limits.backend;
  c.options.num_threads = static_cast<unsigned>(random.up_to(8));
  if (c.way == StressWay::parts) c.options.num_parts = static_cast<std::uint32_t>(random.up_to(12));
  if (c.way == StressWay::ranks) c.num_ranks = static_cast<int>(1 + random.below(4));
  if (random.one_in(4)) c.options.verify_blocks = random.up_to(64);
  const bool on_cuda = limits.backend == Backend::cuda;
  constexpr std::uint64_t kDeviceWork = 66u << 20;  // in addition to the operands, for most kernels
  if (random.one_in(3)) {
    c.options.memory_limit_bytes = 20'000 * random.up_to(500) + (on_cuda ? kDeviceWork : 0);
  }
  // A device takes longer to start than a product takes on it.
  c.keeps_engine = c.options.memory_limit_bytes == 0 && (random.one_in(2) || on_cuda);
  if (c.keeps_engine) c.options.max_threads = std::exchange(c.options.num_threads, 0);
}

std::string text_of(const StressCase& c, const std::array<std::string, 2>& patterns) {
  constexpr std::array kWays = {"memory", "files", "parts", "ranks"};
  std::ostringstream out;
  out << "seed " << c.seed << ": n " << c.a.n << ", m " << c.a.m << ", " << patterns[0] << " " << c.a.index.size()
      << " x " << patterns[1] << " " << c.b.index.size() << " blocks, " << c.pairs << " pairs, "
      << kWays[static_cast<std::size_t>(c.way)] << ", kernel " << c.options.kernel << ", "
      << c.options.num_threads + c.options.max_threads << " threads, limit " << c.options.memory_limit_bytes
      << ", parts " << c.options.num_parts << ", verify " << c.options.verify_blocks
      << (c.keeps_engine ? ", kept engine" : "");
  if (c.num_ranks != 0) out << ", " << c.num_ranks << " ranks";
  return out.str();
}

}  // namespace

StressCase make_stress_case(std::uint64_t seed, const StressLimits& limits) {
  constexpr std::uint64_t kMostTerms = 60'000'000;  // multiply-adds: the oracle takes a tenth of a second
  constexpr std::uint32_t kSmallGrid = 2000;
  Random random(seed * 0x9E3779B97F4A7C15u + 1);
  StressCase c;
  c.seed = seed;
  const std::uint32_t m = random_side(random);
  c.options.kernel = random_kernel(limits, random);
  choose_way(c, limits, random);
  if (c.way == StressWay::ranks) c.options.kernel = "auto";
  std::uint32_t nb = static_cast<std::uint32_t>(random.up_to(3000));
  const bool is_huge = random.one_in(12);  // few blocks on the largest grid there is
  if (is_huge && !visits_all_columns(c.options.kernel))
    nb = static_cast<std::uint32_t>(0xFFFF'FFFFu / m - random.below(3));
  if (is_for_small_grids(c.options.kernel, limits.backend)) {
    // Dense kernels take time with the square of the side.
    nb = static_cast<std::uint32_t>(random.up_to(std::max<std::uint32_t>(1, std::min(kSmallGrid, 1000 / m))));
  }
  if (!test::takes_operands(c.options.kernel, m, nb)) c.options.kernel = "auto";
  std::array<std::string, 2> patterns;
  for (std::string& pattern : patterns) pattern = random.one_in(2) ? kPatterns[0] : random.of(kPatterns);
  std::uint64_t most = random.up_to(random.one_in(10) ? 6000 : 800);
  Positions a;
  Positions b;
  do {
    a = positions_of(patterns[0], nb, std::max<std::uint64_t>(most, 1), random);
    b = positions_of(patterns[1], nb, std::max<std::uint64_t>(most, 1), random);
    if (nb > kSmallGrid && !a.empty() && random.one_in(2)) {  // else nothing meets on a large grid
      Positions met;
      std::vector<std::uint32_t> columns;
      for (const auto& [i, j] : a) columns.push_back(j);
      for (const auto& [i, j] : b) met.emplace(random.of(columns), j);
      b = std::move(met);
    }
    c.pairs = count_pairs(a, b);
    most /= 2;
  } while (c.pairs * m * m * m > kMostTerms && most > 0);
  c.a = make_matrix(a, nb, m, random_values(random), random);
  c.b = make_matrix(b, nb, m, random_values(random), random);
  if (random.one_in(6)) aim_at_limit(c, random);
  c.text = text_of(c, patterns);
  return c;
}

}  // namespace spmm::test
