// A value that one thread waits for does not keep others from the device.
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "cuda/device/raii.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using namespace std::chrono_literals;

/// What a stream waits for.
struct Gate {
  std::atomic<bool> is_open{false};
  std::atomic<bool> timed_out{false};

  static void wait(void* gate) {
    auto& self = *static_cast<Gate*>(gate);
    for (int x = 0; x < 10'000 && !self.is_open; ++x) std::this_thread::sleep_for(1ms);
    self.timed_out = !self.is_open;
  }
};

}  // namespace

TEST_CASE("fetch: while a thread waits for a value, others copy") {
  cuda::DeviceContext context(0);
  const cuda::DeviceGuard guard(0);
  const cuda::Stream busy(context);
  const cuda::Stream other(context);
  cuda::DeviceMemory memory(busy, 1u << 20);
  const cuda::DeviceBuffer<std::uint32_t> value(memory, 1, "value");
  check(cudaMemsetAsync(value.data(), 7, sizeof(std::uint32_t), busy.get()), "set");
  REQUIRE(cuda::fetch(value.data(), busy) == 0x0707'0707);
  std::byte* const slot = context.slots().take();
  Gate gate;
  std::uint32_t fetched = 0;
  check(cudaLaunchHostFunc(busy.get(), Gate::wait, &gate), "gate");
  std::jthread fetching([&] {
    const cuda::DeviceGuard its_guard(0);
    fetched = cuda::fetch(value.data(), busy);
  });
  std::this_thread::sleep_for(200ms);  // it waits by now
  {
    const cuda::Event begin(true);
    const cuda::Event end(true);
    begin.record(other);
    cuda::copy_async(slot, reinterpret_cast<const std::byte*>(value.data()), sizeof(std::uint32_t), other);
    end.record(other);
    end.synchronize();
  }
  CHECK_FALSE(gate.timed_out);
  gate.is_open = true;
  fetching.join();
  CHECK_FALSE(gate.timed_out);
  CHECK(fetched == 0x0707'0707);
  context.slots().put(slot);
}
