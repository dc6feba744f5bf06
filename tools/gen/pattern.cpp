// Places of the blocks of a generated matrix: simple patterns, and patterns of applications.
#include "tools/gen/gen.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "tools/common/random.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint32_t kDefaultGroup = 64;

BlockIndex cell_at(std::uint64_t i, std::uint64_t j) {
  return {.i = static_cast<std::uint32_t>(i), .j = static_cast<std::uint32_t>(j)};
}

/// Smallest value in [low, high] for which `holds`, which stays true once it is; high if it never is.
template <class Holds>
std::uint64_t first_where(std::uint64_t low, std::uint64_t high, const Holds& holds) {
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    holds(middle) ? high = middle : low = middle + 1;
  }
  return low;
}

/// Block rows, or block columns, of a rectangle: `count` successive numbers from `first`, with `skipped` left out.
struct Axis {
  std::uint64_t count = 0;
  std::uint64_t first = 0;
  std::uint64_t skipped = UINT64_MAX;

  [[nodiscard]] std::uint64_t at(std::uint64_t number) const {
    return first + number + (first + number >= skipped ? 1 : 0);
  }
};

Part rectangle(std::uint64_t count, Axis rows, Axis columns) {
  return {.count = count, .capacity = rows.count * columns.count, .cell = [=](std::uint64_t rank) {
            return cell_at(rows.at(rank / columns.count), columns.at(rank % columns.count));
          }};
}

/// The cells of one row: intervals [begin, end) of columns in order, without overlap, none of them empty.
class Intervals {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin < end) intervals_.at(size_++) = {begin, end};
  }
  [[nodiscard]] std::uint64_t num_cells() const {
    std::uint64_t sum = 0;
    for (std::size_t v = 0; v < size_; ++v) sum += intervals_[v].second - intervals_[v].first;
    return sum;
  }
  [[nodiscard]] std::uint64_t column(std::uint64_t number) const {
    std::size_t v = 0;
    for (; number >= intervals_[v].second - intervals_[v].first; ++v) {
      number -= intervals_[v].second - intervals_[v].first;
    }
    return intervals_[v].first + number;
  }

 private:
  std::array<std::pair<std::uint64_t, std::uint64_t>, 9> intervals_;
  std::size_t size_ = 0;
};

/// A part whose rows row(number) gives. Counts the cells before every row into a table, of a very large grid before
/// every stride-th one: 128 MB at most.
template <class Row>
Part part_of_rows(std::uint64_t nb, std::uint64_t count, Row row) {
  constexpr std::uint64_t kMaxTable = std::uint64_t{1} << 24;
  const std::uint64_t stride = nb / kMaxTable + 1;
  const auto before = std::make_shared<std::vector<std::uint64_t>>();
  std::uint64_t num_cells = 0;
  for (std::uint64_t i = 0; i < nb; ++i) {
    if (i % kMaxTable == 0) cli::check_cancelled("spmm-gen");
    if (i % stride == 0) before->push_back(num_cells);
    num_cells += row(i).num_cells();
  }
  return {.count = count, .capacity = num_cells, .cell = [=](std::uint64_t rank) {
            const auto next = std::upper_bound(before->begin(), before->end(), rank);
            std::uint64_t i = static_cast<std::uint64_t>(next - before->begin() - 1) * stride;
            rank -= *(next - 1);
            for (; rank >= row(i).num_cells(); ++i) rank -= row(i).num_cells();
            return cell_at(i, row(i).column(rank));
          }};
}

/// Cells that a pattern with room to spare offers for k blocks.
std::uint64_t roomy(std::uint64_t nb, std::uint64_t k) {
  return std::min(2 * k, nb * nb);
}

/// |i - j| <= bandwidth; without one the narrowest band that is at most half full.
Part band(std::uint64_t nb, std::uint64_t k, std::optional<std::uint32_t> bandwidth) {
  if (bandwidth && *bandwidth >= nb) {
    throw UsageError("--bandwidth", text(*bandwidth, " is wider than the matrix, which has ", nb, " block columns"),
                     text("give at most ", nb - 1));
  }
  const auto fits = [&](std::uint64_t width) { return nb + width * (2 * nb - width - 1) >= roomy(nb, k); };
  const std::uint64_t width = bandwidth ? *bandwidth : first_where(0, nb - 1, fits);
  const auto row = [=](std::uint64_t i) {
    Intervals cells;
    cells.add(i - std::min(i, width), std::min(nb, i + width + 1));
    return cells;
  };
  return part_of_rows(nb, k, row);
}

/// Steps of 1, 2, 4, ... rows; the cells of a row are the first ones, half as many as in the step before.
Part staircase(std::uint64_t nb, std::uint64_t k) {
  const auto capacity = [&](std::uint64_t width) {
    std::uint64_t sum = 0;
    for (std::uint64_t row = 0, step = 1; row < nb; row += step, step *= 2, width /= 2) {
      sum += std::min(step, nb - row) * std::min(nb, width);
    }
    return sum;
  };
  const std::uint64_t width =
      first_where(1, nb * nb, [&](std::uint64_t tried) { return capacity(tried) >= roomy(nb, k); });
  return {.count = k, .capacity = capacity(width), .cell = [=](std::uint64_t rank) {
            std::uint64_t row = 0;
            std::uint64_t step = 1;
            while (rank >= step * std::min(nb, width / step)) {
              rank -= step * std::min(nb, width / step);
              row += step;
              step *= 2;
            }
            return cell_at(row + rank / std::min(nb, width / step), rank % std::min(nb, width / step));
          }};
}

/// A node of a cubic grid, numbered line by line, and its neighbours: 6 along the axes (7 points), or all 26 of the box
/// around it (27 points). The last plane is not always full.
struct Stencil {
  std::uint64_t nb;
  std::uint64_t points;
  std::uint64_t side = first_where(1, 2048, [nodes = nb](std::uint64_t s) { return s * s * s >= nodes; });

  Intervals operator()(std::uint64_t node) const {
    const std::uint64_t x = node % side;
    const std::uint64_t y = node / side % side;
    const std::uint64_t z = node / (side * side);
    const std::uint64_t plane = side * side;
    Intervals out;
    if (points == 7) {
      if (z > 0) out.add(node - plane, node - plane + 1);
      if (y > 0) out.add(node - side, node - side + 1);
      out.add(node - (x > 0 ? 1 : 0), std::min(nb, node + (x + 1 < side ? 2 : 1)));
      if (y + 1 < side && node + side < nb) out.add(node + side, node + side + 1);
      if (node + plane < nb) out.add(node + plane, node + plane + 1);
      return out;
    }
    for (std::uint64_t nz = z - (z > 0 ? 1 : 0); nz <= z + 1; ++nz) {
      for (std::uint64_t ny = y - (y > 0 ? 1 : 0); ny <= std::min(y + 1, side - 1); ++ny) {
        const std::uint64_t line = (nz * side + ny) * side;
        out.add(line + x - (x > 0 ? 1 : 0), std::min(nb, line + std::min(x + 2, side)));
      }
    }
    return out;
  }
};

/// Full square groups along the diagonal, the last one smaller where nb is no multiple.
Part block_diagonal(std::uint64_t nb, std::uint64_t k, std::optional<std::uint32_t> given) {
  const std::uint64_t group = given ? *given : std::min<std::uint64_t>(kDefaultGroup, nb);
  if (group == 0 || group > nb) {
    throw UsageError("--group", text(group, " block rows: the matrix has ", nb), text("give 1 to ", nb));
  }
  const auto row = [=](std::uint64_t i) {
    Intervals cells;
    cells.add(i - i % group, std::min(nb, i - i % group + group));
    return cells;
  };
  return part_of_rows(nb, k, row);
}

/// Block row 0, block column 0 and the diagonal.
Part arrow(std::uint64_t nb, std::uint64_t k) {
  const auto row = [=](std::uint64_t i) {
    Intervals cells;
    cells.add(0, i == 0 ? nb : 1);
    if (i > 0) cells.add(i, i + 1);
    return cells;
  };
  return part_of_rows(nb, k, row);
}

/// [[K, B^T], [B, 0]]: K is a 7-point stencil over the first 3/4 of the block rows; row p of B has blocks in columns
/// 3p - 2 to 3p + 5, as far as K has them.
Part saddle_point(std::uint64_t nb, std::uint64_t k) {
  const std::uint64_t inner = nb - nb / 4;  // rows of K
  return part_of_rows(nb, k, [=, stencil = Stencil{.nb = inner, .points = 7}](std::uint64_t i) {
    if (i >= inner) {
      const std::uint64_t first = 3 * (i - inner);
      Intervals row;
      row.add(std::max<std::uint64_t>(first, 2) - 2, std::min(first + 6, inner));
      return row;
    }
    Intervals row = stencil(i);
    // Those p with 3p - 2 <= i <= 3p + 5.
    row.add(inner + (std::max<std::uint64_t>(i, 5) - 5 + 2) / 3, std::min(nb, inner + (i + 2) / 3 + 1));
    return row;
  });
}

/// Draw number `draw` of R-MAT: at each level a quadrant, by 16 bits of a random number.
BlockIndex draw_rmat(std::uint64_t key, std::uint64_t draw, int levels) {
  constexpr std::uint64_t kTopLeft = 37'356;   // 0.57 of 2^16
  constexpr std::uint64_t kTopRight = 12'452;  // 0.19, and as much for the quadrant below the first
  const std::uint64_t sequence = random_at(key, draw);
  std::uint64_t bits = 0;
  BlockIndex at{};
  for (int level = 0; level < levels; ++level, bits >>= 16) {
    if (level % 4 == 0) bits = random_at(sequence, static_cast<std::uint64_t>(level));
    const std::uint64_t value = bits & 0xFFFF;
    const bool below = value >= kTopLeft + kTopRight;
    const bool right = below ? value >= kTopLeft + 2 * kTopRight : value >= kTopLeft;
    at.i = at.i << 1 | (below ? 1 : 0);
    at.j = at.j << 1 | (right ? 1 : 0);
  }
  return at;
}

/// At least k places drawn as a recursive matrix with the parameters of Graph500, each drawn place once, numbers not
/// permuted. Source: Chakrabarti, Zhan, Faloutsos, R-MAT (2004).
Part rmat(std::uint64_t nb, std::uint64_t k, std::uint64_t seed) {
  constexpr std::uint64_t kMaxDraws = 64;  // for each block
  const int levels = static_cast<int>(std::bit_width(nb - 1));
  const auto places = std::make_shared<std::vector<std::uint64_t>>();  // i * nb + j
  for (std::uint64_t draw = 0; places->size() < k;) {
    if (draw >= kMaxDraws * k) {
      throw UsageError("--k",
                       text("64 draws for each of ", k, " blocks do not find as many places of the rmat pattern"),
                       "give fewer blocks or a larger --n");
    }
    const std::uint64_t missing = k - places->size();
    for (const std::uint64_t end = draw + missing + missing / 4; draw <= end; ++draw) {
      const BlockIndex at = draw_rmat(seed, draw, levels);
      if (at.i < nb && at.j < nb) places->push_back(at.i * nb + at.j);
    }
    std::sort(places->begin(), places->end());
    places->erase(std::unique(places->begin(), places->end()), places->end());
  }
  return {.count = k, .capacity = places->size(), .cell = [places, nb](std::uint64_t rank) {
            return cell_at((*places)[rank] / nb, (*places)[rank] % nb);
          }};
}

/// One long block row and the rest; is_column: a long block column.
std::vector<Part> heavy_parts(std::uint64_t nb, std::uint64_t k, bool is_column) {
  const Axis all{.count = nb};
  const Axis line{.count = 1, .first = nb / 2};
  const Axis others{.count = nb - 1, .skipped = nb / 2};
  const std::uint64_t in_line = std::min(nb, k - k / 2);
  if (is_column) return {rectangle(in_line, all, line), rectangle(k - in_line, all, others)};
  return {rectangle(in_line, line, all), rectangle(k - in_line, others, all)};
}

/// A long block row, a long block column, and the rest. They cross next to the diagonal: on it, each block of A's
/// column would meet each block of B's row, and the result would be full.
std::vector<Part> hub_parts(std::uint64_t nb, std::uint64_t k) {
  const std::uint64_t row = nb / 2;
  const std::uint64_t column = (nb / 2 + 1) % nb;
  const Axis other_rows{.count = nb - 1, .skipped = row};
  const Axis other_columns{.count = nb - 1, .skipped = column};
  const std::uint64_t in_row = std::min(nb, (k + 2) / 3);
  const std::uint64_t in_column = std::min(nb - 1, (k - in_row + 1) / 2);
  return {rectangle(in_row, {.count = 1, .first = row}, {.count = nb}),
          rectangle(in_column, other_rows, {.count = 1, .first = column}),
          rectangle(k - in_row - in_column, other_rows, other_columns)};
}

/// A pattern by its name. Values: parts(nb, k, options).
struct Pattern {
  const char* name;
  std::vector<Part> (*parts)(std::uint64_t nb, std::uint64_t k, const PatternOptions& options);
};

constexpr Pattern kPatterns[] = {
    {"uniform", [](auto nb, auto k, auto&) { return std::vector{rectangle(k, {.count = nb}, {.count = nb})}; }},
    {"diagonal", [](auto nb, auto k, auto&) { return std::vector{band(nb, k, 0)}; }},
    {"banded", [](auto nb, auto k, auto& options) { return std::vector{band(nb, k, options.bandwidth)}; }},
    {"power-law", [](auto nb, auto k, auto&) { return std::vector{staircase(nb, k)}; }},
    {"heavy-row", [](auto nb, auto k, auto&) { return heavy_parts(nb, k, false); }},
    {"heavy-column", [](auto nb, auto k, auto&) { return heavy_parts(nb, k, true); }},
    {"hub", [](auto nb, auto k, auto&) { return hub_parts(nb, k); }},
    {"stencil-7",
     [](auto nb, auto k, auto&) { return std::vector{part_of_rows(nb, k, Stencil{.nb = nb, .points = 7})}; }},
    {"stencil-27",
     [](auto nb, auto k, auto&) { return std::vector{part_of_rows(nb, k, Stencil{.nb = nb, .points = 27})}; }},
    {"rmat", [](auto nb, auto k, auto& options) { return std::vector{rmat(nb, k, options.seed)}; }},
    {"block-diagonal",
     [](auto nb, auto k, auto& options) { return std::vector{block_diagonal(nb, k, options.group)}; }},
    {"arrow", [](auto nb, auto k, auto&) { return std::vector{arrow(nb, k)}; }},
    {"saddle-point", [](auto nb, auto k, auto&) { return std::vector{saddle_point(nb, k)}; }},
};

}  // namespace

std::vector<std::string> pattern_names() {
  std::vector<std::string> names;
  for (const Pattern& pattern : kPatterns) names.emplace_back(pattern.name);
  return names;
}

std::vector<Part> make_pattern(const std::string& name, std::uint32_t nb, std::uint64_t k,
                               const PatternOptions& options) {
  const std::uint64_t cells = std::uint64_t{nb} * nb;
  if (k > cells) {
    throw UsageError("--k", text(k, " blocks do not fit a matrix of ", nb, " x ", nb, " blocks"),
                     text("give at most ", cells, " blocks, a larger --n or a smaller --m"));
  }
  const auto* const pattern =
      std::find_if(std::begin(kPatterns), std::end(kPatterns), [&](const Pattern& one) { return one.name == name; });
  std::vector<Part> parts = pattern->parts(nb, k, options);
  for (const Part& part : parts) {
    if (part.count <= part.capacity) continue;
    throw UsageError("--k", text(part.count, " blocks do not fit the pattern, which has ", part.capacity, " places"),
                     text("give at most ", part.capacity, " blocks, a wider --bandwidth or another --pattern"));
  }
  return parts;
}

}  // namespace spmm::tools
