// OpenBLAS. Compiled only where the build found it. A shared library is loaded by the first call: its start, with
// threads of its own, takes longer than a small product.
#include <cblas.h>
#include <dlfcn.h>

#include <mutex>
#include <sstream>

#include "cpu/dense/blas.hpp"
#include "spmm/error.hpp"

namespace spmm::cpu {
namespace {

struct Library {
  decltype(&cblas_dgemm) dgemm;
  decltype(&openblas_get_config) get_config;
  decltype(&openblas_get_num_threads) get_num_threads;
  decltype(&openblas_set_num_threads) set_num_threads;
};

#ifdef SPMM_OPENBLAS_SONAME
[[noreturn]] void throw_not_loaded() {
  const char* problem = dlerror();
  throw DeviceError("OpenBLAS", problem == nullptr ? "cannot be loaded" : problem, "install it, or use row-merge");
}

template <typename Function>
void look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw_not_loaded();
}

Library load() {
  void* library = nullptr;
  for (const char* name : {SPMM_OPENBLAS_SONAME, SPMM_OPENBLAS_PATH}) {
    if (library == nullptr) library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  }
  if (library == nullptr) throw_not_loaded();
  Library found{};
  look_up(library, "cblas_dgemm", found.dgemm);
  look_up(library, "openblas_get_config", found.get_config);
  look_up(library, "openblas_get_num_threads", found.get_num_threads);
  look_up(library, "openblas_set_num_threads", found.set_num_threads);
  return found;
}
#else
Library load() {
  return {.dgemm = cblas_dgemm,
          .get_config = openblas_get_config,
          .get_num_threads = openblas_get_num_threads,
          .set_num_threads = openblas_set_num_threads};
}
#endif

/// Stays loaded. Errors: DeviceError if it is not on this machine.
const Library& openblas() {
  static const Library library = load();
  return library;
}

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

bool has_blas() {
  return true;
}

std::string blas_name() try {
  std::istringstream config(openblas().get_config());  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  std::string name;
  std::string version;
  config >> name >> version;
  return name + " " + version;
} catch (const DeviceError&) {
  return "OpenBLAS, which is missing here";
}

BlasOnCallersThread::BlasOnCallersThread() {
  ThreadCount& count = thread_count();
  const std::lock_guard lock(count.mutex);
  if (count.num_users == 0) {
    count.saved = openblas().get_num_threads();
    openblas().set_num_threads(1);
  }
  ++count.num_users;
}

BlasOnCallersThread::~BlasOnCallersThread() {
  ThreadCount& count = thread_count();
  const std::lock_guard lock(count.mutex);
  if (--count.num_users == 0) openblas().set_num_threads(count.saved);
}

void multiply_dense(const DenseSides& sides, const double* a, const double* b, bool add, double* c) {
  const auto rows = static_cast<blasint>(sides.rows);
  const auto inner = static_cast<blasint>(sides.inner);
  const auto cols = static_cast<blasint>(sides.cols);
  openblas().dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, cols, inner, 1.0, a, inner, b, cols,
                   add ? 1.0 : 0.0, c, cols);
}

}  // namespace spmm::cpu
