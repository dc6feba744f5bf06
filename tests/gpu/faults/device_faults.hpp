// Calls of the CUDA runtime that fail on purpose. This program is linked with --wrap for each of them: the products
// have no hook, and no other program pays anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace spmm::test {

/// Calls by what they are for.
enum class WrappedCall : std::uint32_t {
  memory,  ///< cudaMallocFromPoolAsync, cudaMalloc
  pinned,  ///< cudaHostAlloc
  create,  ///< streams, events, memory pools
  launch,  ///< of kernels
  copy,    ///< cudaMemcpyAsync, cudaMemsetAsync
  wait,    ///< for streams and events, on the host and on the device; the error comes once the wait is over
  query,   ///< attributes, free memory, occupancy
  end,
};
inline constexpr auto kNumDeviceCalls = static_cast<std::size_t>(WrappedCall::end);
inline constexpr std::array<const char*, kNumDeviceCalls> kDeviceCallNames = {"memory", "pinned", "create", "launch",
                                                                              "copy",   "wait",   "query"};

/// Which calls fail: those of a kind with the number `at`, counted from 1, and all after it where `from_here`.
struct DeviceFault {
  WrappedCall kind{};
  std::uint64_t at = 0;  ///< 0: none
  bool from_here = false;
};

/// "memory once 17".
std::string text_of(const DeviceFault& fault);

/// Counts anew. Threads: none may be in a product.
void arm(const DeviceFault& fault);
/// From now on no call fails; counts stay.
void disarm();
std::uint64_t num_calls(WrappedCall kind);
/// How many calls have failed since arm().
std::uint64_t num_failed();

}  // namespace spmm::test
