// Why doubles are exact here, for any number of terms: a product of two elements is an integer below 2^32, and a double
// holds every integer up to 2^53. A sum that stays up to 2^53 is exact in whatever order it is formed. A sum above it
// is rounded, but rounding never goes past a representable number, so no partial sum that has passed 2^53 falls below
// it again (no term is negative): the result is above 2^32 - 1 either way and is clamped.
#include "cpu/dense/product.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/records/head.hpp"
#include "base/run/stage_progress.hpp"
#include "cpu/dense/blas.hpp"
#include "cpu/output/queue.hpp"
#include "spmm/saturate.hpp"

namespace spmm::cpu {
namespace {

constexpr double kMaxValue = kMaxVal;

/// What is multiplied, shared by all workers. Block rows and columns without any product are left out.
struct DenseProduct {
  const Prepared& in;
  AlignedArray<std::uint32_t> rows;    // of the compressed A
  AlignedArray<std::uint32_t> cols;    // block columns of B, ascending
  std::vector<std::uint32_t> borders;  // in `rows`: where each range of the result begins, and the end
  plan::DensePanels panels;
};

/// Rows [row_begin, row_end) and columns [col_begin, col_end) of a DenseProduct: records that leave together.
struct DenseUnit {
  std::uint32_t row_begin = 0;
  std::uint32_t row_end = 0;
  std::uint32_t col_begin = 0;
  std::uint32_t col_end = 0;
  std::uint32_t range = 0;
};

AlignedArray<std::uint32_t> rows_with_pairs(const Prepared& in) {
  AlignedArray<std::uint32_t> rows(in.a.num_rows());
  std::uint64_t count = 0;
  for (std::uint32_t r = 0; r < in.a.num_rows(); ++r) {
    if (in.row_pairs[r] != 0) rows[count++] = r;
  }
  rows.truncate(count);
  return rows;
}

/// The block columns that occur in an operand, ascending.
AlignedArray<std::uint32_t> columns_of(const PackedOperand& b, std::uint32_t blocks_per_side) {
  AlignedArray<std::uint32_t> cols(std::min<std::uint64_t>(b.cols.size(), blocks_per_side));
  std::uint64_t count = 0;
  if (!plan::marks_columns(blocks_per_side, b.cols.size())) {  // then there are fewer blocks than columns
    std::copy(b.cols.begin(), b.cols.end(), cols.begin());
    std::sort(cols.begin(), cols.end());
    count = static_cast<std::uint64_t>(std::unique(cols.begin(), cols.end()) - cols.begin());
  } else {
    const AlignedArray<std::uint64_t> marks(plan::mark_words(blocks_per_side));
    std::fill(marks.begin(), marks.end(), 0);
    for (const std::uint32_t col : b.cols) marks[col / 64] |= std::uint64_t{1} << (col % 64);
    for (std::uint32_t col = 0; col < blocks_per_side; ++col) {
      if ((marks[col / 64] >> (col % 64) & 1) != 0) cols[count++] = col;
    }
  }
  cols.truncate(count);
  return cols;
}

/// Hands out units in output order, of each range in turn.
class DenseUnitMaker {
 public:
  explicit DenseUnitMaker(const DenseProduct& product)
      : panels_(product.panels), num_cols_(static_cast<std::uint32_t>(product.cols.size())) {
    for (std::size_t x = 1; x < product.borders.size(); ++x) {
      places_.push_back({.row = product.borders[x - 1], .end = product.borders[x]});
    }
  }

  /// False at the end.
  bool next(DenseUnit& unit) {
    for (std::size_t asked = 0; asked < places_.size(); ++asked) {
      const std::size_t range = turn_;
      RangePosition& place = places_[range];
      turn_ = range + 1 == places_.size() ? 0 : range + 1;
      if (place.row >= place.end) continue;
      unit = {.row_begin = place.row,
              .row_end = place.row + std::min(panels_.rows, place.end - place.row),
              .col_begin = place.col,
              .col_end = place.col + std::min(panels_.result_cols, num_cols_ - place.col),
              .range = static_cast<std::uint32_t>(range)};
      place.col = unit.col_end < num_cols_ ? unit.col_end : 0;
      if (place.col == 0) place.row = unit.row_end;
      return true;
    }
    return false;
  }

 private:
  /// Where a range is.
  struct RangePosition {
    std::uint32_t row = 0;
    std::uint32_t end = 0;
    std::uint32_t col = 0;
  };

  plan::DensePanels panels_;
  std::uint32_t num_cols_;
  std::vector<RangePosition> places_;
  std::size_t turn_ = 0;
};

/// One thread's panels.
class DenseWorker {
 public:
  explicit DenseWorker(const DenseProduct& product)
      : product_(product),
        m_(product.in.shape.m),
        a_(elements(product.panels.rows, product.panels.inner)),
        b_(elements(product.panels.inner, product.panels.cols)),
        c_(elements(product.panels.rows, product.panels.cols)),
        result_(elements(product.panels.rows, product.panels.result_cols)),
        cursors_(product.panels.rows) {}

  /// Computes a unit and adds its records to the output.
  void multiply(const DenseUnit& unit, const Run& run, RowUnitOutput& out) {
    std::uint32_t end = unit.col_begin;
    for (std::uint32_t begin = end; begin < unit.col_end; begin = end) {
      end = begin + std::min(product_.panels.cols, unit.col_end - begin);
      const bool any = sum_columns(unit, begin, end, run);
      store(unit, begin, end, any);
    }
    write_records(unit, out);
  }

 private:
  [[nodiscard]] std::uint64_t elements(std::uint32_t x, std::uint32_t y) const {
    return std::uint64_t{x} * y * m_ * m_;
  }

  /// Exact sums of columns [col_begin, col_end) to c_; false if all of them are zero and c_ was not written.
  bool sum_columns(const DenseUnit& unit, std::uint32_t col_begin, std::uint32_t col_end, const Run& run) {
    const PackedOperand& a = product_.in.a;
    const std::uint32_t num_inner = product_.in.b.num_rows();
    for (std::uint32_t r = unit.row_begin; r < unit.row_end; ++r) {
      cursors_[r - unit.row_begin] = a.row_ptr[product_.rows[r]];
    }
    bool any = false;
    std::uint32_t end = 0;
    for (std::uint32_t begin = 0; begin < num_inner; begin = end) {
      run.check_cancelled();
      end = begin + std::min(product_.panels.inner, num_inner - begin);
      if (!expand_a(unit, begin, end) || !expand_b(begin, end, col_begin, col_end)) continue;
      const DenseSides sides{.rows = (unit.row_end - unit.row_begin) * m_,
                             .inner = (end - begin) * m_,
                             .cols = (col_end - col_begin) * m_};
      multiply_dense(sides, a_.data(), b_.data(), any, c_.data());
      any = true;
    }
    return any;
  }

  /// Fills a_ with the unit's rows and the inner block rows [inner, inner_end); false if no block lies there.
  bool expand_a(const DenseUnit& unit, std::uint32_t inner, std::uint32_t inner_end) {
    const PackedOperand& a = product_.in.a;
    const PackedShape& shape = product_.in.shape;
    const std::size_t width = std::size_t{inner_end - inner} * m_;
    std::fill_n(a_.data(), (unit.row_end - unit.row_begin) * m_ * width, 0.0);
    bool any = false;
    for (std::uint32_t r = unit.row_begin; r < unit.row_end; ++r) {
      std::uint32_t& x = cursors_[r - unit.row_begin];
      const std::uint32_t end = a.row_ptr[product_.rows[r] + 1];
      for (; x < end && (a.b_rows()[x] < inner_end || a.b_rows()[x] == kNoRow); ++x) {
        if (a.b_rows()[x] == kNoRow) continue;
        const std::uint16_t* from = a.values.data() + x * shape.a_elements();
        double* to = a_.data() + (r - unit.row_begin) * m_ * width + std::size_t{a.b_rows()[x] - inner} * m_;
        for (std::uint32_t row = 0; row < m_; ++row) {
          for (std::uint32_t t = 0; t < m_; ++t) to[row * width + t] = from[row * shape.inner + t];
        }
        any = true;
      }
    }
    return any;
  }

  /// Fills b_ with the inner block rows [inner, inner_end) and columns [col_begin, col_end); false if no block lies
  /// there.
  bool expand_b(std::uint32_t inner, std::uint32_t inner_end, std::uint32_t col_begin, std::uint32_t col_end) {
    const PackedOperand& b = product_.in.b;
    const auto first = product_.cols.begin() + col_begin;
    const auto last = product_.cols.begin() + col_end;
    const std::size_t width = std::size_t{col_end - col_begin} * m_;
    std::fill_n(b_.data(), (inner_end - inner) * m_ * width, 0.0);
    bool any = false;
    for (std::uint32_t t = inner; t < inner_end; ++t) {
      const std::uint32_t* end = b.cols.data() + b.row_ptr[t + 1];
      const std::uint32_t* at = std::lower_bound<const std::uint32_t*>(b.cols.data() + b.row_ptr[t], end, *first);
      auto place = first;
      for (; at != end && *at <= *(last - 1); ++at) {
        while (*place < *at) ++place;
        const auto at_col = static_cast<std::size_t>(place - first);
        expand_block_of_b(static_cast<std::size_t>(at - b.cols.data()), width,
                          b_.data() + (t - inner) * m_ * width + at_col * m_);
        any = true;
      }
    }
    return any;
  }

  void expand_block_of_b(std::size_t block, std::size_t width, double* to) const {
    const PackedShape& shape = product_.in.shape;
    const std::uint16_t* from = product_.in.b.values.data() + block * shape.b_elements();
    for (std::uint32_t row = 0; row < m_; ++row) {
      const std::uint16_t* const of_row = from + shape.b_element(row, 0);
      const std::size_t step = shape.b_element(0, 1);
      for (std::uint32_t c = 0; c < m_; ++c) to[row * width + c] = of_row[c * step];
    }
  }

  /// Saturates c_ (zeros if not `any`) into its columns of result_.
  void store(const DenseUnit& unit, std::uint32_t col_begin, std::uint32_t col_end, bool any) {
    const std::size_t width = std::size_t{col_end - col_begin} * m_;
    const std::size_t result_width = std::size_t{unit.col_end - unit.col_begin} * m_;
    for (std::size_t row = 0; row < std::size_t{unit.row_end - unit.row_begin} * m_; ++row) {
      const double* from = c_.data() + row * width;
      std::uint32_t* to = result_.data() + row * result_width + std::size_t{col_begin - unit.col_begin} * m_;
      if (!any) {
        std::fill_n(to, width, 0);
        continue;
      }
      for (std::size_t c = 0; c < width; ++c) {
        to[c] = static_cast<std::uint32_t>(static_cast<std::int64_t>(std::min(from[c], kMaxValue)));
      }
    }
  }

  void write_records(const DenseUnit& unit, RowUnitOutput& out) const {
    const std::size_t width = std::size_t{unit.col_end - unit.col_begin} * m_;
    for (std::uint32_t r = unit.row_begin; r < unit.row_end; ++r) {
      const std::uint32_t* block = result_.data() + (r - unit.row_begin) * m_ * width;
      for (std::uint32_t c = unit.col_begin; c < unit.col_end; ++c, block += m_) {
        if (is_zero(block, width)) continue;
        static_cast<void>(out.room());
        std::byte* to = out.position();
        write_index(to, {.i = product_.in.a.rows[product_.rows[r]], .j = product_.cols[c]});
        to += kIndexBytes;
        for (std::uint32_t row = 0; row < m_; ++row, to += m_ * sizeof *block) {
          std::memcpy(to, block + row * width, m_ * sizeof *block);
        }
        out.advance_to(to);
      }
    }
  }

  [[nodiscard]] bool is_zero(const std::uint32_t* block, std::size_t width) const {
    std::uint32_t bits = 0;
    for (std::uint32_t row = 0; row < m_; ++row) {
      for (std::uint32_t c = 0; c < m_; ++c) bits |= block[row * width + c];
    }
    return bits == 0;
  }

  const DenseProduct& product_;
  std::uint32_t m_;
  AlignedArray<double> a_;
  AlignedArray<double> b_;
  AlignedArray<double> c_;
  AlignedArray<std::uint32_t> result_;
  AlignedArray<std::uint32_t> cursors_;  // next block of each row of A in the unit
};

/// One worker: units from `maker` until none is left.
void work(const DenseProduct& product, DenseUnitMaker& maker, OutputQueue& queue, Progress& progress, const Run& run) {
  DenseWorker worker(product);
  OutputQueue::Job job;
  DenseUnit unit;
  const auto claim = [&] { return maker.next(unit); };
  while (queue.start(job, claim)) {
    {
      auto piece = run.clock.worker_scope(Stage::multiply, {.panel = job.number});
      RowUnitOutput out(queue, job, output_record_bytes(product.in.shape.m));
      out.set_may_saturate(product.in.b.num_rows() > product.in.sure_pairs());
      worker.multiply(unit, run, out);
      piece.work().bytes = job.total_bytes();
    }
    queue.finish(job);
    if (unit.col_end == product.cols.size()) progress.add(unit.row_end - unit.row_begin);
  }
}

}  // namespace

ProductStats multiply_dense_blas(const Prepared& product, Sink& sink, const plan::Execution& execution,
                                 const Run& run) {
  const std::uint32_t m = product.shape.m;
  std::optional<DenseProduct> dense;
  {
    const auto timing = run.clock.scope(Stage::plan);
    AlignedArray<std::uint32_t> rows = rows_with_pairs(product);
    std::vector<std::uint32_t> borders = {0, product.a.num_rows()};
    for (std::uint32_t& border : borders) {
      border = static_cast<std::uint32_t>(std::lower_bound(rows.begin(), rows.end(), border) - rows.begin());
    }
    dense.emplace(DenseProduct{.in = product,
                               .rows = std::move(rows),
                               .cols = columns_of(product.b, product.blocks_per_side),
                               .borders = std::move(borders),
                               .panels = execution.dense_panels});
  }
  const auto around = run.clock.frame(Stage::multiply);
  DenseUnitMaker maker(*dense);
  OutputQueue queue(sink, execution.num_buffers, execution.panel_bytes, output_record_bytes(m), run);
  Progress progress(run, Stage::multiply, dense->rows.size());
  const BlasOnCallersThread blas;
  queue.run([&] { work(*dense, maker, queue, progress, run); });
  return {.num_blocks = queue.num_records(),
          .pairs = product.num_pairs,
          .num_panels = queue.num_appended(),
          .num_saturated = queue.num_saturated(),
          .device = blas_name()};
}

}  // namespace spmm::cpu
