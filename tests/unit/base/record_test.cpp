// The limit of blocks of a product: one error, one message.
#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/wrapped_calls.hpp"

#include <array>

namespace {

using namespace spmm;

std::string message_for(std::uint64_t num_blocks) {
  return test::message_of<OutOfMemory>([&] { check_num_output_blocks(num_blocks); });
}

TEST_CASE("a product has at most 2^32 - 1 blocks") {
  CHECK(max_output_blocks() == 4294967295u);
  CHECK(message_for(0) == "no such error");
  CHECK(message_for(4294967295u) == "no such error");
  CHECK(test::has(message_for(4294967296u), "output: the product has more than 4294967295 non-zero blocks"));
  CHECK(test::has(message_for(4294967296u), "ProductOptions::rows"));
  test::most_output_blocks = 10;
  CHECK(message_for(10) == "no such error");
  CHECK(message_for(11).find("more than 10 non-zero blocks") != std::string::npos);
  test::most_output_blocks = test::kMostOutputBlocks;
}

TEST_CASE("the head of a record is two little-endian numbers, at any address") {
  const std::array<unsigned char, 11> bytes = {9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 0x80};
  const std::byte* record = reinterpret_cast<const std::byte*>(bytes.data()) + 3;
  CHECK((read_index(record) == BlockIndex{.i = 0x04030201, .j = 0x80070605}));
  std::array<std::byte, 11> written{};
  write_index(written.data() + 3, {.i = 0x04030201, .j = 0x80070605});
  CHECK(std::equal(written.begin() + 3, written.end(), record));
  CHECK(written[2] == std::byte{0});
}

}  // namespace
