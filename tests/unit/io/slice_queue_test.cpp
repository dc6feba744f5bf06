// Which piece a writer gets next.
#include "io/files/slice_queue.hpp"

#include <array>
#include <atomic>
#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace {

using spmm::ReleaseOnce;
using spmm::io::Slice;
using spmm::io::SlicePiece;
using spmm::io::SliceQueue;

constexpr std::array<std::byte, 100> kBytes{};
constexpr std::uint64_t kPieceBytes = 10;

/// Queues `bytes` bytes at the offset.
void push(SliceQueue& queue, std::uint64_t offset, std::size_t bytes) {
  queue.push({.offset = offset, .bytes = std::span(kBytes).first(bytes), .release = ReleaseOnce({})});
}

/// Offset of the next piece; 1 if there is none.
std::uint64_t take(SliceQueue& queue) {
  const std::optional<SlicePiece> piece = queue.try_pop();
  return piece ? piece->offset : 1;
}

std::vector<std::uint64_t> take_all(SliceQueue& queue) {
  std::vector<std::uint64_t> all;
  while (all.empty() || all.back() != 1) all.push_back(take(queue));
  return all;
}

}  // namespace

TEST_CASE("slice queue: pieces come in the order of the slices") {
  SliceQueue queue(kPieceBytes);
  push(queue, 100, 25);
  push(queue, 125, 5);
  push(queue, 50, 12);
  CHECK(take_all(queue) == std::vector<std::uint64_t>{100, 110, 120, 125, 50, 60, 1});
}

TEST_CASE("slice queue: the first failure is the one that is thrown") {
  SliceQueue queue(kPieceBytes);
  queue.fail(std::make_exception_ptr(std::runtime_error("first")));
  queue.fail(std::make_exception_ptr(std::runtime_error("second")));
  CHECK_THROWS_WITH(push(queue, 0, 5), "first");
  CHECK_THROWS_WITH(queue.drain(), "first");
}

TEST_CASE("slice queue: it is drained when the last piece is written, not when it is taken") {
  SliceQueue queue(kPieceBytes);
  push(queue, 0, 5);
  REQUIRE(take(queue) == 0);
  std::atomic<bool> is_drained{false};
  std::jthread waits([&] {
    queue.drain();
    is_drained = true;
  });
  // The longer it looks, the surer it sees a drain() that does not wait; one that does is never blamed.
  for (int look = 0; look < 100'000 && !is_drained; ++look) std::this_thread::yield();
  CHECK_FALSE(is_drained);
  queue.done();
  waits.join();
  CHECK(is_drained);
}
