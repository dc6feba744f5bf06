// Shares of a memory limit: planned against the whole, waited for in order, given back.
#include "base/memory/budget.hpp"

#include <thread>
#include <vector>

#include "spmm/error.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;

constexpr std::uint64_t kHost = 100;
constexpr std::uint64_t kDeviceLimit = 1000;

/// A share that has examined both limits.
struct BudgetProduct {
  explicit BudgetProduct(MemoryBudget& budget) : share(budget) {
    share.host_limit_bytes([] { return kHost; });
    share.device_limit_bytes([] { return kDeviceLimit; });
  }
  MemoryShare share;
};

/// Waits until that many products wait. Nothing else tells that a thread has got that far.
void wait_for_waiting(const MemoryBudget& budget, std::size_t num) {
  while (budget.num_waiting() != num) std::this_thread::yield();
}

}  // namespace

TEST_CASE("the limit is measured when no other product uses the memory, and stays while one does") {
  MemoryBudget budget;
  const auto says = [](std::uint64_t bytes) { return [bytes] { return bytes; }; };
  {
    MemoryShare first(budget);
    CHECK(first.host_limit_bytes(says(100)) == 100);
    CHECK(first.host_limit_bytes(says(7)) == 100);
    first.reserve({.host = 90, .device = 0}, nullptr);
    MemoryShare second(budget);
    CHECK(second.host_limit_bytes(says(10)) == 100);   // the first one's 90 must not count twice
    CHECK(second.device_limit_bytes(says(50)) == 50);  // no product has used the device before
    CHECK(second.free().host == 10);
    CHECK(second.free().device == 50);
  }
  MemoryShare third(budget);
  CHECK(third.host_limit_bytes(says(60)) == 60);
}

TEST_CASE("products wait for host and for device memory, first come, first served") {
  for (const MemoryBytes& held : {MemoryBytes{.host = 60, .device = 0}, MemoryBytes{.host = 0, .device = 600}}) {
    MemoryBudget budget;
    std::vector<int> order;  // guarded by the budget: one at a time holds memory
    std::jthread large;
    std::jthread small;
    {
      BudgetProduct running(budget);
      running.share.reserve(held, nullptr);
      large = std::jthread([&] {
        BudgetProduct product(budget);
        product.share.reserve({.host = kHost, .device = kDeviceLimit}, nullptr);
        order.push_back(1);
      });
      wait_for_waiting(budget, 1);
      small = std::jthread([&] {  // would fit at once, but is behind the large one
        BudgetProduct product(budget);
        product.share.reserve({.host = 1, .device = 1}, nullptr);
        order.push_back(2);
      });
      wait_for_waiting(budget, 2);
      CHECK(order.empty());
      CHECK(running.share.free().host == kHost - held.host);
    }
    large.join();
    small.join();
    CHECK(order == std::vector<int>{1, 2});
    CHECK(budget.num_waiting() == 0);
  }
}

TEST_CASE("a product that waits can be cancelled, and those behind it get on") {
  MemoryBudget budget;
  BudgetProduct running(budget);
  running.share.reserve({.host = 60, .device = 0}, nullptr);
  std::atomic<bool> cancel{false};
  std::atomic<bool> was_interrupted{false};
  std::atomic<std::uint64_t> left_bytes{1};
  std::jthread large([&] {
    BudgetProduct product(budget);
    try {
      product.share.reserve({.host = 50, .device = 0}, &cancel);
    } catch (const Interrupted&) {
      was_interrupted = true;
    }
    left_bytes = product.share.reserved().host;
  });
  wait_for_waiting(budget, 1);
  std::atomic<bool> got_on{false};
  std::jthread small([&] {
    BudgetProduct product(budget);
    product.share.reserve({.host = 40, .device = 0}, nullptr);
    got_on = true;
  });
  wait_for_waiting(budget, 2);
  CHECK_FALSE(got_on);
  cancel = true;
  large.join();
  small.join();
  CHECK(was_interrupted);
  CHECK(left_bytes == 0);
  CHECK(got_on);
}

TEST_CASE("more than the limit means all of it; growing takes only what is free") {
  MemoryBudget budget;
  BudgetProduct first(budget);
  first.share.reserve({.host = 30, .device = ~std::uint64_t{0}}, nullptr);
  CHECK(first.share.reserved().host == 30);
  CHECK(first.share.reserved().device == kDeviceLimit);
  BudgetProduct second(budget);
  CHECK_FALSE(second.share.grow_device(1));
}

TEST_CASE("more host memory than the limit is not waited for either") {
  MemoryBudget budget;
  BudgetProduct only(budget);
  const std::atomic<bool> cancel{true};  // would end a wait
  only.share.reserve({.host = ~std::uint64_t{0}, .device = 0}, &cancel);
  CHECK(only.share.reserved().host == kHost);
  CHECK(only.share.free().host == 0);
}
