// Products of plans as calls of XLA. Compiled by _operators.py against the headers that come with JAX.
#include <cstdint>
#include <map>
#include <mutex>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;

// spmm_device_plan_multiply_add() and spmm_last_error_problem() of the library that Python has loaded.
using Multiply = int (*)(void* plan, const void* a, const void* b, void* c, const void* alpha, const void* beta,
                         void* stream);
using Problem = const char* (*)();

std::mutex mutex;  // of all below: a plan serves one thread at a time, and XLA runs calls on threads of its own
Multiply multiply_add = nullptr;
Problem last_problem = nullptr;
std::map<std::int64_t, void*> plans;

ffi::Error multiply(void* stream, ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::Result<ffi::AnyBuffer> c,
                    std::int64_t plan) {
  const std::lock_guard lock{mutex};
  const auto found = plans.find(plan);
  if (found == plans.end()) {
    return ffi::Error(ffi::ErrorCode::kFailedPrecondition, "spmm: the operator exists no more; keep it");
  }
  const int status =
      multiply_add(found->second, a.untyped_data(), b.untyped_data(), c->untyped_data(), nullptr, nullptr, stream);
  return status == 0 ? ffi::Error::Success() : ffi::Error(ffi::ErrorCode::kInternal, last_problem());
}

}  // namespace

extern "C" void spmm_jax_use(Multiply multiply_add_of_library, Problem last_problem_of_library) {
  multiply_add = multiply_add_of_library;
  last_problem = last_problem_of_library;
}

// plan: null: none any more.
extern "C" void spmm_jax_set_plan(std::int64_t number, void* plan) {
  const std::lock_guard lock{mutex};
  if (plan == nullptr) {
    plans.erase(number);
  } else {
    plans[number] = plan;
  }
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(spmm_jax_multiply, multiply,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<std::int64_t>("operator"));
