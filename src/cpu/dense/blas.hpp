// The one function that is called of a BLAS library, if the build found one.
#pragma once

#include <cstdint>
#include <string>

namespace spmm::cpu {

/// Whether the build found one. It is loaded later.
bool has_blas();

/// "OpenBLAS 0.3.21"; empty in a build without one. Loads it.
std::string blas_name();

/// Makes every call below run on its caller's thread while one of these lives, whatever the program around has set.
/// Loads the library. Errors: DeviceError if it is not on this machine.
class BlasOnCallersThread {
 public:
  BlasOnCallersThread();
  ~BlasOnCallersThread();
  BlasOnCallersThread(const BlasOnCallersThread&) = delete;
  BlasOnCallersThread& operator=(const BlasOnCallersThread&) = delete;
};

/// Sides of a dense product.
struct DenseSides {
  std::uint32_t rows = 0;
  std::uint32_t inner = 0;
  std::uint32_t cols = 0;
};

/// c = a * b, or c += a * b if `add`. Shapes: a [rows, inner], b [inner, cols], c [rows, cols], row-major. Threads:
/// any.
void multiply_dense(const DenseSides& sides, const double* a, const double* b, bool add, double* c);

}  // namespace spmm::cpu
