// Patterns of matrices as applications have them: stencils, graphs, groups, arrows, saddle points.
#include "tools/gen/structured_pattern.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

#include "tools/common/random.hpp"

namespace spmm::tools {
namespace {

/// Columns [begin, end).
struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t size() const { return end - begin; }
};

/// The cells of one row: intervals in order, without overlap, none of them empty.
class Intervals {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin < end) intervals_.at(size_++) = {.begin = begin, .end = end};
  }
  [[nodiscard]] const Interval* begin() const { return intervals_.data(); }
  [[nodiscard]] const Interval* end() const { return intervals_.data() + size_; }
  [[nodiscard]] std::uint64_t num_cells() const {
    std::uint64_t sum = 0;
    for (const Interval& interval : *this) sum += interval.size();
    return sum;
  }

 private:
  std::array<Interval, 9> intervals_;
  std::size_t size_ = 0;
};

/// A region whose rows are described by `Shape::row(row)`, with a table of the cells before each row.
template <class Shape>
class RowRegion final : public Region {
 public:
  explicit RowRegion(Shape shape) : shape_(std::move(shape)), first_(shape_.nb + 1) {
    for (std::uint64_t row = 0; row < shape_.nb; ++row) first_[row + 1] = first_[row] + shape_.row(row).num_cells();
  }

  [[nodiscard]] std::uint64_t capacity() const override { return first_.back(); }

  [[nodiscard]] BlockIndex cell(std::uint64_t rank) const override {
    const auto row =
        static_cast<std::uint64_t>(std::upper_bound(first_.begin(), first_.end(), rank) - first_.begin()) - 1;
    std::uint64_t in_row = rank - first_[row];
    const Intervals intervals = shape_.row(row);
    const Interval* interval = intervals.begin();
    while (in_row >= interval->size()) in_row -= (interval++)->size();
    return {.i = static_cast<std::uint32_t>(row), .j = static_cast<std::uint32_t>(interval->begin + in_row)};
  }

 private:
  Shape shape_;
  std::vector<std::uint64_t> first_;
};

template <class Shape>
std::unique_ptr<Region> make_rows(Shape shape) {
  return std::make_unique<RowRegion<Shape>>(std::move(shape));
}

/// Side of the smallest cube of at least nb nodes.
std::uint64_t cube_side(std::uint64_t nb) {
  std::uint64_t side = 1;
  while (side * side * side < nb) ++side;
  return side;
}

/// A node of a cubic grid and its neighbours: 6 along the axes (7 points), or all 26 of the box around it (27 points).
struct Stencil {
  std::uint64_t nb;
  std::uint64_t side;  ///< of the grid
  std::uint32_t points;

  [[nodiscard]] Intervals row(std::uint64_t node) const {
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

struct BlockDiagonal {
  std::uint64_t nb;
  std::uint64_t group;

  [[nodiscard]] Intervals row(std::uint64_t at) const {
    const std::uint64_t begin = at - at % group;
    Intervals out;
    out.add(begin, std::min(nb, begin + group));
    return out;
  }
};

struct Arrow {
  std::uint64_t nb;

  [[nodiscard]] Intervals row(std::uint64_t at) const {
    Intervals out;
    out.add(0, at == 0 ? nb : 1);
    if (at > 0) out.add(at, at + 1);
    return out;
  }
};

struct SaddlePoint {
  std::uint64_t nb;
  std::uint64_t inner;  ///< rows of K
  Stencil stencil;

  [[nodiscard]] Intervals row(std::uint64_t at) const {
    Intervals out;
    if (at >= inner) {
      const std::uint64_t first = 3 * (at - inner);
      out.add(std::max<std::uint64_t>(first, 2) - 2, std::min(first + 6, inner));
      return out;
    }
    out = stencil.row(at);
    // Those p with 3p - 2 <= at <= 3p + 5.
    out.add(inner + (std::max<std::uint64_t>(at, 5) - 5 + 2) / 3, std::min(nb, inner + (at + 2) / 3 + 1));
    return out;
  }
};

/// Places in a sorted list.
class PlaceList final : public Region {
 public:
  PlaceList(std::uint64_t nb, std::vector<std::uint64_t> places) : nb_(nb), places_(std::move(places)) {}

  [[nodiscard]] std::uint64_t capacity() const override { return places_.size(); }
  [[nodiscard]] BlockIndex cell(std::uint64_t rank) const override {
    return {.i = static_cast<std::uint32_t>(places_[rank] / nb_), .j = static_cast<std::uint32_t>(places_[rank] % nb_)};
  }

 private:
  std::uint64_t nb_;
  std::vector<std::uint64_t> places_;  ///< i * nb + j, ascending
};

/// Draw number `draw`: at each level a quadrant, by 16 bits of a random number.
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

}  // namespace

std::unique_ptr<Region> make_stencil(std::uint64_t nb, std::uint32_t points) {
  return make_rows(Stencil{.nb = nb, .side = cube_side(nb), .points = points});
}

std::unique_ptr<Region> make_block_diagonal(std::uint64_t nb, std::uint32_t group) {
  return make_rows(BlockDiagonal{.nb = nb, .group = group});
}

std::unique_ptr<Region> make_arrow(std::uint64_t nb) {
  return make_rows(Arrow{.nb = nb});
}

std::unique_ptr<Region> make_saddle_point(std::uint64_t nb) {
  const std::uint64_t inner = nb - nb / 4;
  return make_rows(
      SaddlePoint{.nb = nb, .inner = inner, .stencil = {.nb = inner, .side = cube_side(inner), .points = 7}});
}

std::unique_ptr<Region> make_rmat(std::uint64_t nb, std::uint64_t k, std::uint64_t seed) {
  constexpr std::uint64_t kMaxDraws = 64;  // for each block
  const int levels = static_cast<int>(std::bit_width(nb - 1));
  std::vector<std::uint64_t> places;
  for (std::uint64_t draw = 0; places.size() < k;) {
    if (draw >= kMaxDraws * k) return nullptr;
    const std::uint64_t missing = k - places.size();
    for (const std::uint64_t end = draw + missing + missing / 4; draw <= end; ++draw) {
      const BlockIndex at = draw_rmat(seed, draw, levels);
      if (at.i < nb && at.j < nb) places.push_back(at.i * nb + at.j);
    }
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
  }
  return std::make_unique<PlaceList>(nb, std::move(places));
}

}  // namespace spmm::tools
