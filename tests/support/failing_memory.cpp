#include "support/failing_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <new>

namespace spmm::test {
namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> allocations_left{kAll};

void* allocate(std::size_t size) {
  if (allocations_left.load() != kAll && allocations_left.fetch_sub(1) <= 0) throw std::bad_alloc();
  void* const data = std::malloc(size == 0 ? 1 : size);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

void set_address_space(std::uint64_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = bytes;
  setrlimit(RLIMIT_AS, &limit);
}

}  // namespace

FailingMemory::FailingMemory(std::int64_t num_left) {
  allocations_left = num_left;
}

FailingMemory::~FailingMemory() {
  allocations_left = kAll;
}

bool FailingMemory::has_failed() const {
  return allocations_left.load() < 0;
}

NoMoreMappings::NoMoreMappings() {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  before_ = limit.rlim_cur;
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  set_address_space(pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
}

NoMoreMappings::~NoMoreMappings() {
  set_address_space(before_);
}

}  // namespace spmm::test

void* operator new(std::size_t size) {
  return spmm::test::allocate(size);
}
void* operator new[](std::size_t size) {
  return spmm::test::allocate(size);
}
void operator delete(void* data) noexcept {
  std::free(data);
}
void operator delete[](void* data) noexcept {
  std::free(data);
}
void operator delete(void* data, std::size_t) noexcept {
  std::free(data);
}
void operator delete[](void* data, std::size_t) noexcept {
  std::free(data);
}
