// Products of the caller's arrays.
#include "spmm/arrays.hpp"

namespace spmm {

BsrMatrix<std::uint32_t> multiply(Engine& engine, const BsrView<std::uint16_t>& a, const BsrView<std::uint16_t>& b,
                                  const ProductOptions& options, Report* report) {
  const std::uint32_t n = padded_side(a, b);
  const auto source_a = make_bsr_source(a, n, "matrix A");
  const auto source_b = make_bsr_source(b, n, "matrix B");
  BsrMatrix<std::uint32_t> product;
  const auto sink = make_bsr_sink(product, a.rows, b.cols);
  Report finished = engine.multiply(*source_a, *source_b, *sink, options);
  if (report != nullptr) *report = std::move(finished);
  return product;
}

}  // namespace spmm
