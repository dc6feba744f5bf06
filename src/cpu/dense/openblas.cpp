// OpenBLAS. Compiled only where the build found it.
#include <cblas.h>

#include <mutex>
#include <sstream>

#include "cpu/dense/blas.hpp"

namespace spmm::cpu {
namespace {

/// The library's number of threads belongs to the whole process: the first user saves it, the last one puts it back.
struct ThreadCount {
  std::mutex mutex;
  unsigned num_users = 0;
  int saved = 1;
};

ThreadCount& thread_count() {
  static ThreadCount count;
  return count;
}

}  // namespace

std::string blas_name() {
  std::istringstream config(openblas_get_config());  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  std::string name;
  std::string version;
  config >> name >> version;
  return name + " " + version;
}

BlasOnCallersThread::BlasOnCallersThread() {
  ThreadCount& count = thread_count();
  const std::lock_guard lock(count.mutex);
  if (count.num_users++ > 0) return;
  count.saved = openblas_get_num_threads();
  openblas_set_num_threads(1);
}

BlasOnCallersThread::~BlasOnCallersThread() {
  ThreadCount& count = thread_count();
  const std::lock_guard lock(count.mutex);
  if (--count.num_users == 0) openblas_set_num_threads(count.saved);
}

void multiply_dense(const DenseSides& sides, const double* a, const double* b, bool add, double* c) {
  const auto rows = static_cast<blasint>(sides.rows);
  const auto inner = static_cast<blasint>(sides.inner);
  const auto cols = static_cast<blasint>(sides.cols);
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, cols, inner, 1.0, a, inner, b, cols, add ? 1.0 : 0.0, c,
              cols);
}

}  // namespace spmm::cpu
