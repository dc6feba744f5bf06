#include "cpu/auto_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace spmm::cpu {
namespace {

/// Rates of one thread.
/// Source: products of matrices of density 0.6 to 1 (n = 1,000 to 2,048, m = 1 to 64), two threads of a Zen 4, the
/// kernels of each instruction set forced, OpenBLAS 0.3.21 with the kernels that it takes on such a machine
/// (Cooperlake, Haswell, Nehalem). Row-merge: its best; it is up to twice as slow where the operands leave the cache,
/// and where all columns are full and their number is a power of two. So the choice leans to row-merge.
struct Rates {
  double pair_ns;        ///< row-merge: finding and ordering a pair, if its terms take less
  double narrow_per_ns;  ///< row-merge: multiply-adds of packed blocks, narrow arithmetic
  double wide_per_ns;    ///< the same, wide
  double dense_per_ns;   ///< DGEMM: multiply-adds
};

constexpr Rates kVnni{.pair_ns = 3.5, .narrow_per_ns = 65, .wide_per_ns = 40, .dense_per_ns = 25};
constexpr Rates kAvx2{.pair_ns = 3.5, .narrow_per_ns = 40, .wide_per_ns = 21, .dense_per_ns = 24};
constexpr Rates kPortable{.pair_ns = 6, .narrow_per_ns = 1.5, .wide_per_ns = 1.5, .dense_per_ns = 8.5};
constexpr double kExpandNs = 1;  // an element of B, for each panel of rows
constexpr double kStoreNs = 1;   // an element of the result: saturated, copied into a record

const Rates& rates_of(Isa isa) {
  return isa == Isa::avx512_vnni ? kVnni : isa == Isa::avx2 ? kAvx2 : kPortable;
}

}  // namespace

PredictedTimes predict_times(const ProductCounts& counts) {
  const Rates& rates = rates_of(counts.isa);
  const std::uint32_t m = counts.extent.m;
  const PackedShape shape = packed_shape(counts.isa, m);
  const double block_terms = static_cast<double>(shape.a_elements()) * shape.cols;
  const double pair_ns = std::max(rates.pair_ns, block_terms / (counts.wide ? rates.wide_per_ns : rates.narrow_per_ns));
  const double rows = static_cast<double>(counts.extent.rows) * m;
  const double inner = static_cast<double>(counts.extent.inner) * m;
  const double cols = static_cast<double>(counts.extent.cols) * m;
  const DensePanels panels = share_dense_panels(counts.extent, ~std::uint64_t{0}, counts.num_threads);
  const double num_row_panels = rows / (static_cast<double>(panels.rows) * m);
  const double dense_ns =
      rows * inner * cols / rates.dense_per_ns + num_row_panels * inner * cols * kExpandNs + rows * cols * kStoreNs;
  constexpr double kNsPerMs = 1e6;
  return {.row_merge_ms = counts.pairs * pair_ns / counts.num_threads / kNsPerMs,
          .dense_blas_ms = dense_ns / counts.num_threads / kNsPerMs};
}

std::string predicted_text(const PredictedTimes& times) {
  std::array<char, 96> out{};
  const bool dense = times.prefers_dense();
  std::snprintf(out.data(), out.size(), "%s %.3g ms, %s %.3g ms", dense ? "dense-blas" : "row-merge",
                std::min(times.row_merge_ms, times.dense_blas_ms), dense ? "row-merge" : "dense-blas",
                std::max(times.row_merge_ms, times.dense_blas_ms));
  return out.data();
}

}  // namespace spmm::cpu
