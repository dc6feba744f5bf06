// Which piece a writer gets next.
#include "io/files/slice_queue.hpp"

#include <array>
#include <atomic>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
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
void push(SliceQueue& queue, std::uint32_t file, std::uint64_t offset, std::size_t bytes) {
  queue.push({.offset = offset, .bytes = std::span(kBytes).first(bytes), .release = ReleaseOnce({}), .file = file});
}

/// What the next piece is: "file@offset".
std::string take(SliceQueue& queue) {
  const std::optional<SlicePiece> piece = queue.try_pop();
  return piece ? std::to_string(piece->slice->file) + "@" + std::to_string(piece->offset) : "nothing";
}

std::vector<std::string> take_all(SliceQueue& queue) {
  std::vector<std::string> all;
  while (all.empty() || all.back() != "nothing") all.push_back(take(queue));
  return all;
}

}  // namespace

TEST_CASE("slice queue: the pieces of one file come in the order of its slices") {
  SliceQueue queue(kPieceBytes);
  push(queue, 0, 100, 25);
  push(queue, 0, 125, 5);
  push(queue, 0, 50, 12);
  CHECK(take_all(queue) == std::vector<std::string>{"0@100", "0@110", "0@120", "0@125", "0@50", "0@60", "nothing"});
}

TEST_CASE("slice queue: writers spread over the files, and slices of a file keep their order") {
  SliceQueue queue(kPieceBytes);
  push(queue, 0, 0, 30);
  push(queue, 2, 0, 20);
  push(queue, 1, 0, 10);
  push(queue, 2, 20, 10);
  CHECK(take_all(queue) == std::vector<std::string>{"0@0", "2@0", "1@0", "0@10", "2@10", "0@20", "2@20", "nothing"});
}

TEST_CASE("slice queue: a file whose writers are done comes first") {
  SliceQueue queue(kPieceBytes);
  push(queue, 0, 0, 40);
  push(queue, 1, 0, 40);
  CHECK(take(queue) == "0@0");
  CHECK(take(queue) == "1@0");
  CHECK(take(queue) == "0@10");
  CHECK(take(queue) == "1@10");
  queue.done(1);
  CHECK(take(queue) == "1@20");
  queue.done(1);
  queue.done(1);
  CHECK(take(queue) == "1@30");
  CHECK(take(queue) == "0@20");
}

TEST_CASE("slice queue: the first failure is the one that is thrown") {
  SliceQueue queue(kPieceBytes);
  queue.fail(std::make_exception_ptr(std::runtime_error("first")));
  queue.fail(std::make_exception_ptr(std::runtime_error("second")));
  CHECK_THROWS_WITH(push(queue, 0, 0, 5), "first");
  CHECK_THROWS_WITH(queue.drain(), "first");
}

TEST_CASE("slice queue: it is drained when the last piece is written, not when it is taken") {
  SliceQueue queue(kPieceBytes);
  push(queue, 0, 0, 5);
  REQUIRE(take(queue) == "0@0");
  std::atomic<bool> is_drained{false};
  std::jthread waits([&] {
    queue.drain();
    is_drained = true;
  });
  // The longer it looks, the surer it sees a drain() that does not wait; one that does is never blamed.
  for (int look = 0; look < 100'000 && !is_drained; ++look) std::this_thread::yield();
  CHECK_FALSE(is_drained);
  queue.done(0);
  waits.join();
  CHECK(is_drained);
}
