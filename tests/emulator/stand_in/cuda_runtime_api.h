// As much of CUDA as kernels/chains needs, on the CPU: a fiber for each thread, one CTA after the other. Barriers and
// warp functions wait as they do on a device; a lane that is missing is found, since its warp waits forever: the
// scheduler throws then.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ thread_local
#define __launch_bounds__(...)

using std::max;
using std::min;

struct dim3 {
  unsigned x = 1;
  dim3(unsigned count = 1) : x(count) {}
};
struct alignas(16) double2 {
  double x;
  double y;
};
inline thread_local dim3 threadIdx(0), blockIdx(0), gridDim, blockDim;

namespace emulator {

constexpr std::size_t kStackBytes = 256 << 10;

/// Threads that wait for each other. slots: what they hand over, those of one exchange and of the next.
struct Group {
  unsigned live = 0;
  unsigned arrived = 0;
  unsigned generation = 0;
  std::uint64_t slots[2][32] = {};
};

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<std::byte[]> stack{new std::byte[kStackBytes]};
  bool is_done = false;
};

struct State {
  std::vector<Fiber> fibers;
  ucontext_t scheduler{};
  unsigned current = 0;
  bool has_moved = false;
  Group cta;
  std::vector<Group> warps;
  std::function<void()> body;
};
inline thread_local State state;

inline void release(Group& group) {
  if (group.live == 0 || group.arrived != group.live) return;
  group.arrived = 0;
  ++group.generation;
  state.has_moved = true;
}

inline void arrive(Group& group) {
  const unsigned generation = group.generation;
  ++group.arrived;
  release(group);
  while (group.generation == generation) {
    const unsigned self = state.current;
    swapcontext(&state.fibers[self].context, &state.scheduler);
    threadIdx.x = self;
  }
}

inline Group& own_warp() {
  return state.warps[threadIdx.x / 32];
}

inline void run_thread() {
  state.body();
  const unsigned self = state.current;
  state.fibers[self].is_done = state.has_moved = true;
  for (Group* const group : {&state.warps[self / 32], &state.cta}) {
    --group->live;
    release(*group);
  }
  swapcontext(&state.fibers[self].context, &state.scheduler);
}

/// Every other CTA runs its threads from the last to the first.
inline void run_cta(unsigned threads, bool is_reversed) {
  state.cta = {.live = threads};
  state.warps.assign(threads / 32, {.live = 32});
  state.fibers.resize(std::max<std::size_t>(state.fibers.size(), threads));
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& fiber = state.fibers[t];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_thread, 0);
    fiber.is_done = false;
  }
  for (unsigned left = threads; left != 0;) {
    left = 0;
    state.has_moved = false;
    for (unsigned x = 0; x < threads; ++x) {
      const unsigned t = is_reversed ? threads - 1 - x : x;
      if (state.fibers[t].is_done) continue;
      ++left;
      state.current = threadIdx.x = t;
      swapcontext(&state.scheduler, &state.fibers[t].context);
    }
    if (left != 0 && !state.has_moved) throw std::logic_error("a thread waits for lanes that do not come");
  }
}

template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T value_of(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// What the lanes of the warp hand over. Shapes: [32].
inline const std::uint64_t* exchange(std::uint64_t own) {
  Group& warp = own_warp();
  std::uint64_t* const slots = warp.slots[warp.generation % 2];
  slots[threadIdx.x % 32] = own;
  arrive(warp);
  return slots;
}

}  // namespace emulator

inline void __syncthreads() {
  emulator::arrive(emulator::state.cta);
}
inline void __syncwarp() {
  emulator::arrive(emulator::own_warp());
}
template <class T>
T __shfl_sync(unsigned, T value, unsigned lane) {
  return emulator::value_of<T>(emulator::exchange(emulator::bits_of(value))[lane % 32]);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  const unsigned lane = threadIdx.x % 32;
  return emulator::value_of<T>(emulator::exchange(emulator::bits_of(value))[lane >= distance ? lane - distance : lane]);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  return emulator::value_of<T>(emulator::exchange(emulator::bits_of(value))[threadIdx.x % 32 ^ mask]);
}
template <class T>
unsigned __match_any_sync(unsigned, T value) {
  const std::uint64_t own = emulator::bits_of(value);
  const std::uint64_t* const values = emulator::exchange(own);
  unsigned equal = 0;
  for (unsigned lane = 0; lane < 32; ++lane) equal |= unsigned{values[lane] == own} << lane;
  return equal;
}
inline unsigned __ballot_sync(unsigned, bool value) {
  const std::uint64_t* const values = emulator::exchange(value ? 1 : 0);
  unsigned set = 0;
  for (unsigned lane = 0; lane < 32; ++lane) set |= static_cast<unsigned>(values[lane]) << lane;
  return set;
}
inline bool __any_sync(unsigned mask, bool value) {
  return __ballot_sync(mask, value) != 0;
}
inline int __popc(unsigned value) {
  return std::popcount(value);
}
inline float __saturatef(float value) {
  return std::clamp(value, 0.0F, 1.0F);
}
template <class T>
T atomicAdd(T* to, T value) {
  const T old = *to;
  *to += value;
  return old;
}
template <class T>
T atomicCAS(T* to, T expected, T value) {
  const T old = *to;
  if (old == expected) *to = value;
  return old;
}
template <class T>
void atomicOr(T* to, T value) {
  *to |= value;
}
template <class T>
void atomicMin(T* to, T value) {
  *to = std::min(*to, value);
}
template <class T>
void atomicMax(T* to, T value) {
  *to = std::max(*to, value);
}

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation };
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaDeviceAttr : int {
  cudaDevAttrMultiProcessorCount = 4,
  cudaDevAttrL2CacheSize = 1 << 20,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 228 << 10,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 227 << 10
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};
inline const char* cudaGetErrorName(cudaError_t) {
  return "";
}
inline const char* cudaGetErrorString(cudaError_t) {
  return "";
}
inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
/// Each attribute has its number for its value.
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute;
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
template <class... Parameters>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Parameters... arguments) {
  emulator::state.body = [=] { kernel(arguments...); };
  gridDim = config->gridDim;
  blockDim = config->blockDim;
  for (unsigned cta = 0; cta < gridDim.x; ++cta) {
    blockIdx.x = cta;
    emulator::run_cta(blockDim.x, cta % 2 != 0);
  }
  return cudaSuccess;
}
