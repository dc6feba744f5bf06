// The small parts of a distributed product that need no other rank.
#include <cstring>

#include "mpi/exchange/distinct_rows.hpp"
#include "mpi/exchange/record_store.hpp"
#include "mpi/output/page_split.hpp"
#include "mpi/output/rank_reports.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"

namespace {

using namespace spmm::mpi;

/// A record of m = 1 as it is sent.
Bytes sent_record(std::uint32_t number, std::uint32_t i, std::uint32_t j, std::uint16_t value) {
  Bytes bytes(14);
  std::memcpy(bytes.data(), &number, 4);
  std::memcpy(bytes.data() + 4, &i, 4);
  std::memcpy(bytes.data() + 8, &j, 4);
  std::memcpy(bytes.data() + 12, &value, 2);
  return bytes;
}

}  // namespace

TEST_CASE("pages that a range does not fill go to rank 0") {
  constexpr std::uint64_t kSmall = 4096;  // pages of x86-64; those of 64-bit ARM may be as large as the others
  constexpr std::uint64_t kLarge = 65536;
  CHECK(split_pages(0, 8192, kSmall) == PageSplit{.begin = 0, .whole_begin = 0, .whole_end = 8192, .end = 8192});
  CHECK(split_pages(12, 9000, kSmall) == PageSplit{.begin = 12, .whole_begin = 4096, .whole_end = 8192, .end = 9000});
  CHECK(split_pages(4096, 4100, kSmall).whole_bytes() == 0);
  CHECK(split_pages(4000, 8191, kSmall).head_bytes() == 4191);
  CHECK(split_pages(5, 5, kSmall).head_bytes() == 0);
  CHECK(split_pages(12, 131'072, kLarge).whole_begin == kLarge);
  for (const std::uint64_t page : {kSmall, kLarge}) {
    for (std::uint64_t begin = 0; begin < 9000; begin += 37) {
      for (std::uint64_t end = begin; end < 5 * page; end += page / 37) {
        const PageSplit split = split_pages(begin, end, page);
        CHECK(split.head_bytes() + split.whole_bytes() + split.tail_bytes() == end - begin);
        CHECK((split.whole_bytes() == 0 || split.whole_begin % page + split.whole_end % page == 0));
        CHECK((split.head_bytes() < 2 * page && split.tail_bytes() < page));
      }
    }
  }
}

TEST_CASE("distinct rows, with a table and by search") {
  const std::vector<std::uint32_t> numbers = {9, 3, 9, 70000, 3, 0};
  for (const std::uint64_t num_rows : {std::uint64_t{70001}, std::uint64_t{4294967295}}) {
    const DistinctRows rows(numbers, num_rows);
    CHECK(rows.rows() == std::vector<std::uint32_t>{0, 3, 9, 70000});
    for (std::uint32_t x = 0; x < 4; ++x) CHECK(rows.position(rows.rows()[x]) == x);
  }
  const DistinctRows small(std::vector<std::uint32_t>{2, 0}, 3);
  CHECK(small.rows() == std::vector<std::uint32_t>{0, 2});
  CHECK(small.position(2) == 1);
  CHECK(DistinctRows({}, 5).rows().empty());
}

TEST_CASE("stored records keep their numbers, and are a source of their own") {
  StoreLimit limit(10'000'000);
  RecordStore store(sent_record_bytes(1), limit);
  const std::uint64_t count = 400'000;  // more than a chunk
  for (std::uint32_t r = 0; r < count; ++r) store.add(sent_record(r * 2, r, r + 1, static_cast<std::uint16_t>(r)));
  CHECK(store.size() == count);
  CHECK(limit.used() >= count * 14);
  const spmm::BlockMatrix matrix{.n = 500'000, .m = 1, .index = {}, .values = {}};
  const spmm::test::MemorySource whole(matrix, "a.bin");
  const StoreSource source(store, whole);
  CHECK(source.header().num_blocks == count);
  CHECK(source.original_record(399'999) == 799'998);
  std::vector<std::byte> read(20);
  source.read(300'000, 2, read.data());
  std::uint32_t words[2];
  std::memcpy(words, read.data() + 10, sizeof words);
  CHECK(words[0] == 300'001);
  CHECK(words[1] == 300'002);
  store.clear();
  CHECK(store.size() == 0);
  CHECK(limit.used() == 0);
}

TEST_CASE("a store beyond its limit says what to do") {
  StoreLimit limit(5'000'000);
  RecordStore store(sent_record_bytes(1), limit);
  const auto fill = [&] {
    for (std::uint32_t r = 0; r < 500'000; ++r) store.add(sent_record(r, r, r, 1));
  };
  CHECK_THROWS_AS(fill(), spmm::OutOfMemory);
}

TEST_CASE("what a rank did arrives as it was") {
  RankReport part{.host = "node 7", .backend = "cuda", .kernel = "esc", .device = "NVIDIA H200"};
  part.pairs = std::uint64_t{1} << 60;
  part.fetch_s = 0.125;
  part.merge_s = 0.1 + 0.2;  // needs all 17 digits
  part.peak_device_bytes = 3;
  const RankReport same = decode(encode(part));
  CHECK(same.host == part.host);
  CHECK(same.backend == part.backend);
  CHECK(same.kernel == part.kernel);
  CHECK(same.device == part.device);
  CHECK(same.pairs == part.pairs);
  CHECK(same.fetch_s == part.fetch_s);
  CHECK(same.merge_s == part.merge_s);
  CHECK(same.peak_device_bytes == 3);
  CHECK(decode(encode(RankReport())).backend.empty());
}
