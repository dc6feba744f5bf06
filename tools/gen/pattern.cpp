// Where the blocks of a generated matrix may lie: simple patterns.
#include "tools/gen/pattern.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "spmm/error.hpp"
#include "tools/gen/structured_pattern.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint32_t kDefaultGroup = 64;

/// Smallest value in [low, high] for which `holds`, which stays true once it is; high where it never is.
template <class Holds>
std::uint64_t first_where(std::uint64_t low, std::uint64_t high, const Holds& holds) {
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Block rows, or block columns, of a rectangle: `count` successive numbers from `first`, with `skipped` left out.
struct Axis {
  static constexpr std::uint64_t kNone = UINT64_MAX;
  std::uint64_t count = 0;
  std::uint64_t first = 0;
  std::uint64_t skipped = kNone;

  [[nodiscard]] std::uint32_t at(std::uint64_t number) const {
    const std::uint64_t value = first + number;
    return static_cast<std::uint32_t>(value + (value >= skipped ? 1 : 0));
  }
};

class Rectangle final : public Region {
 public:
  Rectangle(Axis rows, Axis columns) : rows_(rows), columns_(columns) {}

  [[nodiscard]] std::uint64_t capacity() const override { return rows_.count * columns_.count; }

  [[nodiscard]] BlockIndex cell(std::uint64_t rank) const override {
    return {.i = rows_.at(rank / columns_.count), .j = columns_.at(rank % columns_.count)};
  }

 private:
  Axis rows_;
  Axis columns_;
};

/// |i - j| <= half_width.
class Band final : public Region {
 public:
  Band(std::uint64_t nb, std::uint64_t half_width) : nb_(nb), half_width_(half_width) {
    if (nb < 2 * half_width) return;
    middle_begin_ = first_of_row(half_width);
    middle_end_ = first_of_row(nb - half_width);
  }

  [[nodiscard]] std::uint64_t capacity() const override { return first_of_row(nb_); }

  [[nodiscard]] BlockIndex cell(std::uint64_t rank) const override {
    const std::uint64_t row = row_of(rank);
    return {.i = static_cast<std::uint32_t>(row),
            .j = static_cast<std::uint32_t>(begin_of(row) + (rank - first_of_row(row)))};
  }

 private:
  [[nodiscard]] std::uint64_t begin_of(std::uint64_t row) const { return row > half_width_ ? row - half_width_ : 0; }

  /// Cells in the rows above `row`.
  [[nodiscard]] std::uint64_t first_of_row(std::uint64_t row) const {
    const std::uint64_t growing = std::min(row, nb_ - std::min(nb_, half_width_));  // rows that end before nb
    const std::uint64_t ends = growing * (growing + 1) / 2 + growing * half_width_ + (row - growing) * nb_;
    const std::uint64_t indented = row > half_width_ + 1 ? row - half_width_ - 1 : 0;
    return ends - indented * (indented + 1) / 2;
  }

  [[nodiscard]] std::uint64_t row_of(std::uint64_t rank) const {
    if (rank >= middle_begin_ && rank < middle_end_) {
      return half_width_ + (rank - middle_begin_) / (2 * half_width_ + 1);
    }
    return first_where(0, nb_ - 1, [&](std::uint64_t row) { return first_of_row(row + 1) > rank; });
  }

  std::uint64_t nb_;
  std::uint64_t half_width_;
  std::uint64_t middle_begin_ = 0;  ///< cells of the rows that have the full width
  std::uint64_t middle_end_ = 0;
};

/// Steps of 1, 2, 4, ... rows; the cells of a row are the first ones, half as many as in the step before.
class Staircase final : public Region {
 public:
  Staircase(std::uint64_t nb, std::uint64_t width) {
    std::uint64_t row = 0;
    for (int level = 0; row < nb; ++level) {
      const std::uint64_t num_rows = std::min(std::uint64_t{1} << level, nb - row);
      steps_.push_back(
          {.first_row = row, .first_rank = capacity_, .width = std::min(nb, width >> level), .num_rows = num_rows});
      row += num_rows;
      capacity_ += num_rows * steps_.back().width;
    }
  }

  [[nodiscard]] std::uint64_t capacity() const override { return capacity_; }

  [[nodiscard]] BlockIndex cell(std::uint64_t rank) const override {
    std::size_t s = 0;
    while (rank - steps_[s].first_rank >= steps_[s].width * steps_[s].num_rows) ++s;
    const Step& step = steps_[s];
    const std::uint64_t in_step = rank - step.first_rank;
    return {.i = static_cast<std::uint32_t>(step.first_row + in_step / step.width),
            .j = static_cast<std::uint32_t>(in_step % step.width)};
  }

 private:
  struct Step {
    std::uint64_t first_row, first_rank, width, num_rows;
  };
  std::vector<Step> steps_;
  std::uint64_t capacity_ = 0;
};

/// Cells that a pattern with room to spare offers for k blocks.
std::uint64_t roomy(std::uint64_t nb, std::uint64_t k) {
  return std::min(2 * k, nb * nb);
}

std::unique_ptr<Region> make_band(std::uint64_t nb, std::uint64_t k, std::optional<std::uint32_t> bandwidth) {
  if (bandwidth && *bandwidth >= nb) {
    throw UsageError("--bandwidth", text(*bandwidth, " is wider than the matrix, which has ", nb, " block columns"),
                     text("give at most ", nb - 1));
  }
  if (bandwidth) return std::make_unique<Band>(nb, *bandwidth);
  const auto fits = [&](std::uint64_t half_width) { return Band(nb, half_width).capacity() >= roomy(nb, k); };
  return std::make_unique<Band>(nb, first_where(0, nb - 1, fits));
}

std::unique_ptr<Region> make_staircase(std::uint64_t nb, std::uint64_t k) {
  const auto fits = [&](std::uint64_t width) { return Staircase(nb, width).capacity() >= roomy(nb, k); };
  return std::make_unique<Staircase>(nb, first_where(1, nb * nb, fits));
}

/// One long block row and the rest; `transposed` = a long block column.
std::vector<Part> heavy_parts(std::uint64_t nb, std::uint64_t k, bool transposed) {
  const Axis all{.count = nb};
  const Axis line{.count = 1, .first = nb / 2};
  const Axis others{.count = nb - 1, .skipped = nb / 2};
  const auto rectangle = [&](const Axis& across) {
    return transposed ? std::make_unique<Rectangle>(all, across) : std::make_unique<Rectangle>(across, all);
  };
  const std::uint64_t in_line = std::min(nb, k - k / 2);
  std::vector<Part> parts;
  parts.push_back({.region = rectangle(line), .count = in_line});
  if (k > in_line) parts.push_back({.region = rectangle(others), .count = k - in_line});
  return parts;
}

/// A long block row, a long block column, and the rest. They cross next to the diagonal: on it, each block of A's
/// column would meet each block of B's row, and the result would be full.
std::vector<Part> hub_parts(std::uint64_t nb, std::uint64_t k) {
  const std::uint64_t row = nb / 2;
  const std::uint64_t column = (nb / 2 + 1) % nb;
  const Axis all{.count = nb};
  const Axis other_rows{.count = nb - 1, .skipped = row};
  const Axis other_columns{.count = nb - 1, .skipped = column};
  const std::uint64_t in_row = std::min(nb, (k + 2) / 3);
  const std::uint64_t in_column = std::min(nb - 1, (k - in_row + 1) / 2);
  const std::uint64_t rest = k - in_row - in_column;
  std::vector<Part> parts;
  parts.push_back({.region = std::make_unique<Rectangle>(Axis{.count = 1, .first = row}, all), .count = in_row});
  if (in_column > 0) {
    const Axis line{.count = 1, .first = column};
    parts.push_back({.region = std::make_unique<Rectangle>(other_rows, line), .count = in_column});
  }
  if (rest > 0) {
    parts.push_back({.region = std::make_unique<Rectangle>(other_rows, other_columns), .count = rest});
  }
  return parts;
}

std::vector<Part> one_part(std::unique_ptr<Region> region, std::uint64_t k) {
  std::vector<Part> parts;
  parts.push_back({.region = std::move(region), .count = k});
  return parts;
}

std::unique_ptr<Region> make_graph(std::uint64_t nb, std::uint64_t k, std::uint64_t seed) {
  auto region = make_rmat(nb, k, seed);
  if (region != nullptr) return region;
  throw UsageError("--k", text("64 draws for each of ", k, " blocks do not find as many places of the rmat pattern"),
                   "give fewer blocks or a larger --n");
}

std::uint32_t group_of(std::uint32_t nb, const PatternOptions& options) {
  const std::uint32_t group = options.group.value_or(std::min(kDefaultGroup, nb));
  if (group == 0 || group > nb) {
    throw UsageError("--group", text(group, " block rows: the matrix has ", nb), text("give 1 to ", nb));
  }
  return group;
}

std::vector<Part> parts_of(PatternKind kind, std::uint32_t nb, std::uint64_t k, const PatternOptions& options) {
  const Axis all{.count = nb};
  switch (kind) {
    case PatternKind::uniform:
      break;
    case PatternKind::diagonal:
      return one_part(std::make_unique<Band>(nb, 0), k);
    case PatternKind::banded:
      return one_part(make_band(nb, k, options.bandwidth), k);
    case PatternKind::power_law:
      return one_part(make_staircase(nb, k), k);
    case PatternKind::heavy_row:
      return heavy_parts(nb, k, false);
    case PatternKind::heavy_column:
      return heavy_parts(nb, k, true);
    case PatternKind::hub:
      return hub_parts(nb, k);
    case PatternKind::stencil_7:
      return one_part(make_stencil(nb, 7), k);
    case PatternKind::stencil_27:
      return one_part(make_stencil(nb, 27), k);
    case PatternKind::rmat:
      return one_part(make_graph(nb, k, options.seed), k);
    case PatternKind::block_diagonal:
      return one_part(make_block_diagonal(nb, group_of(nb, options)), k);
    case PatternKind::arrow:
      return one_part(make_arrow(nb), k);
    case PatternKind::saddle_point:
      return one_part(make_saddle_point(nb), k);
  }
  return one_part(std::make_unique<Rectangle>(all, all), k);
}

}  // namespace

const std::vector<std::string>& pattern_names() {
  static const std::vector<std::string> kNames = {
      "uniform",   "diagonal",   "banded", "power-law",      "heavy-row", "heavy-column", "hub",
      "stencil-7", "stencil-27", "rmat",   "block-diagonal", "arrow",     "saddle-point"};
  return kNames;
}

const std::string& pattern_name(PatternKind kind) {
  return pattern_names()[static_cast<std::size_t>(kind)];
}

std::vector<Part> make_pattern(PatternKind kind, std::uint32_t nb, std::uint64_t k, const PatternOptions& options) {
  const std::uint64_t cells = std::uint64_t{nb} * nb;
  if (k > cells) {
    throw UsageError("--k", text(k, " blocks do not fit a matrix of ", nb, " x ", nb, " blocks"),
                     text("give at most ", cells, " blocks, a larger --n or a smaller --m"));
  }
  std::vector<Part> parts = parts_of(kind, nb, k, options);
  for (const Part& part : parts) {
    const std::uint64_t room = part.region->capacity();
    if (part.count <= room) continue;
    throw UsageError("--k", text(part.count, " blocks do not fit the pattern, which has ", room, " places"),
                     text("give at most ", room, " blocks, a wider --bandwidth or another --pattern"));
  }
  return parts;
}

std::optional<std::uint64_t> num_places(PatternKind kind, std::uint32_t nb, const PatternOptions& options) {
  switch (kind) {
    case PatternKind::uniform:
    case PatternKind::heavy_row:
    case PatternKind::heavy_column:
    case PatternKind::hub:
      return std::uint64_t{nb} * nb;
    case PatternKind::power_law:
    case PatternKind::rmat:
      return std::nullopt;
    case PatternKind::banded:
      if (!options.bandwidth) return std::nullopt;
      break;
    case PatternKind::diagonal:
    case PatternKind::stencil_7:
    case PatternKind::stencil_27:
    case PatternKind::block_diagonal:
    case PatternKind::arrow:
    case PatternKind::saddle_point:
      break;
  }
  return make_pattern(kind, nb, 0, options).front().region->capacity();
}

}  // namespace spmm::tools
