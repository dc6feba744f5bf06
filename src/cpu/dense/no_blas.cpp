// Linked instead of a BLAS library where the build found none: has_blas() is false and nothing else is called.
#include <stdexcept>

#include "cpu/dense/blas.hpp"

namespace spmm::cpu {

bool has_blas() {
  return false;
}

std::string blas_name() {
  return {};
}

BlasOnCallersThread::BlasOnCallersThread() = default;
BlasOnCallersThread::~BlasOnCallersThread() = default;

void multiply_dense(const DenseSides&, const double*, const double*, bool, double*) {
  throw std::logic_error("multiply_dense() without a BLAS library");
}

}  // namespace spmm::cpu
