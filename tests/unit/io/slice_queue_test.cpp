// Which piece a writer gets next.
#include "io/slice_queue.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace {

using spmm::ReleaseOnce;
using spmm::io::Piece;
using spmm::io::Slice;
using spmm::io::SliceQueue;

constexpr std::array<std::byte, 100> kBytes{};
constexpr std::uint64_t kPieceBytes = 10;

/// Queues `bytes` bytes at the offset.
void push(SliceQueue& queue, std::uint32_t file, std::uint64_t offset, std::size_t bytes) {
  queue.push({.offset = offset, .bytes = std::span(kBytes).first(bytes), .release = ReleaseOnce({}), .file = file});
}

/// What the next piece is: "file@offset".
std::string take(SliceQueue& queue) {
  const std::optional<Piece> piece = queue.try_pop();
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
