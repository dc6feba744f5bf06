// The parts of a distributed product that need no other rank.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "mpi/page_split.hpp"
#include "mpi/placed_records.hpp"
#include "mpi/rank_share.hpp"
#include "mpi/report.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"
#include "support/process.hpp"

namespace {

using namespace spmm;
using namespace spmm::mpi;
using test::bytes_of;

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 40;

RankShare share_of(const BlockMatrix& a, const BlockMatrix& b, RowRange rows, std::uint32_t rank,
                   std::uint32_t num_ranks, std::uint64_t limit_bytes, bool is_transposed = false,
                   unsigned num_threads = 1) {
  const test::MemorySource source_a(a);
  const test::MemorySource source_b(b);
  StageClock clock;
  const Run run{.clock = clock, .on_progress = test::kNoProgress, .num_threads = num_threads};
  return share_of_rank({.source = source_a, .is_transposed = is_transposed}, {.source = source_b}, rows, rank,
                       num_ranks, limit_bytes, run);
}

/// Blocks of C with a pair, by definition. Elements do not matter.
std::uint64_t num_c_blocks(const BlockMatrix& a, const BlockMatrix& b, RowRange rows) {
  std::vector<std::set<std::uint32_t>> rows_of_b(b.header().blocks_per_side());
  for (const BlockIndex& at : b.index) rows_of_b[at.i].insert(at.j);
  std::set<BlockIndex> found;
  for (const BlockIndex& at : a.index) {
    if (at.i < rows.first || at.i >= rows.end) continue;
    for (const std::uint32_t j : rows_of_b[at.j]) found.insert({.i = at.i, .j = j});
  }
  return found.size();
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

TEST_CASE("ranks share all rows, know their C blocks, and have about equal pairs") {
  struct Shape {
    std::uint32_t n;
    std::uint32_t k_a;
    std::uint32_t k_b;
  };
  // Rows of B as lists and as bits.
  for (const Shape& shape : {Shape{400, 300, 350}, Shape{600, 2000, 12000}, Shape{4000, 3000, 3000}, Shape{64, 0, 5}}) {
    const BlockMatrix a = test::shuffled(test::random_matrix(shape.n, 4, shape.k_a, 9, 1), 2);
    const BlockMatrix b = test::shuffled(test::random_matrix(shape.n, 4, shape.k_b, 9, 3), 4);
    const std::uint32_t nb = shape.n / 4;
    for (const RowRange rows : {RowRange{.first = 0, .end = nb}, RowRange{.first = nb / 3, .end = nb - 1}}) {
      for (const std::uint32_t num_ranks : {1u, 2u, 5u, 200u}) {
        std::uint32_t begin = rows.first;
        for (std::uint32_t rank = 0; rank < num_ranks; ++rank) {
          const bool is_transposed = rank % 2 == 1;
          const RankShare share =
              share_of(is_transposed ? test::transposed(a) : a, b, rows, rank, num_ranks, kNoLimit, is_transposed, 2);
          CHECK(share.rows.first == begin);
          begin = share.rows.end;
          CHECK(share.num_blocks == num_c_blocks(a, b, share.rows));
          // Within too little memory: the same rows on all ranks, and no counts.
          const RankShare uncounted = share_of(a, b, rows, rank, num_ranks, 100);
          CHECK((!uncounted.num_blocks || uncounted.rows.first == uncounted.rows.end));
        }
        CHECK(begin == rows.end);
      }
    }
  }
}

TEST_CASE("few blocks in a huge matrix are not counted by block rows") {
  const BlockMatrix a{.n = 4294967232,
                      .m = 32,
                      .index = {{.i = 7, .j = 1}, {.i = 134'217'725, .j = 1}},
                      .values = std::vector<std::uint16_t>(2048, 1)};
  for (const std::uint32_t rank : {0u, 1u}) {
    const RankShare share = share_of(a, a, {.first = 0, .end = 134'217'726}, rank, 2, kNoLimit);
    CHECK(!share.num_blocks);
    CHECK(share.rows.first < share.rows.end);
  }
}

TEST_CASE("a bad index is refused with its place") {
  BlockMatrix a = test::random_matrix(400, 4, 300, 9, 1);
  const BlockMatrix b = a;
  a.index[7] = {.i = 100, .j = 3};
  for (const std::uint64_t limit_bytes : {std::uint64_t{100}, kNoLimit}) {
    CHECK_THROWS_WITH(share_of(a, b, {.first = 0, .end = 100}, 0, 2, limit_bytes), Catch::Contains("record 7 "));
    CHECK_THROWS_WITH(share_of(b, a, {.first = 0, .end = 100}, 1, 2, kNoLimit), Catch::Contains("record 7 "));
  }
}

TEST_CASE("records are written to their place; what shares pages goes to rank 0") {
  const test::TemporaryFolder folder;
  const ProductMatrix product =
      test::oracle_multiply(test::random_matrix(1200, 4, 900, 99, 1), test::random_matrix(1200, 4, 900, 99, 2));
  write_product(folder.file("expected"), product);
  const std::string expected = bytes_of(folder.file("expected"));
  const auto* const records = reinterpret_cast<const std::byte*>(expected.data()) + kHeaderBytes;
  const std::uint64_t record = output_record_bytes(4);
  const std::uint64_t count = product.index.size();
  REQUIRE(count * record > 100'000);
  for (const unsigned num_writers : {0u, 2u}) {
    for (const std::uint64_t border : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{500}, count}) {
      SharedOutput output;
      output.create(folder.file("c"), {});
      const std::uint64_t middle = kHeaderBytes + border * record;
      const std::uint64_t end = kHeaderBytes + count * record;
      PlacedRecords first(output, 4, {.begin = kHeaderBytes, .end = middle}, true, num_writers);
      PlacedRecords second(output, 4, {.begin = middle, .end = end}, false, num_writers);
      const auto put = [&](PlacedRecords& to, std::uint64_t begin, std::uint64_t end_record) {
        for (std::uint64_t r = begin; r < end_record; r += 100) {
          to.write(r - begin, {records + r * record, std::min<std::uint64_t>(100, end_record - r) * record}, {});
        }
        to.finish({});
      };
      put(second, border, count);
      put(first, 0, border);
      CHECK(first.shared_pages().empty());
      CHECK(first.size_bytes() + second.size_bytes() == count * record);
      for (std::uint64_t r = border; r < count; r += 97) {
        std::vector<std::byte> found(std::min<std::uint64_t>(50, count - r) * record);
        REQUIRE(second.read_back(r - border, found.size() / record, found.data()));
        CHECK(std::equal(found.begin(), found.end(), records + r * record));
      }
      write_pieces(output, second.shared_pages());
      output.finish({.n = 1200, .m = 4, .num_blocks = static_cast<std::uint32_t>(count)}, end);
      output.publish();
      CHECK(bytes_of(folder.file("c")) == expected);
      // Without room, records are counted, released and not written.
      SharedOutput empty;
      empty.create(folder.file("d"), {});
      PlacedRecords counted(empty, 4, {}, false, num_writers);
      bool is_released = false;
      counted.write(0, {records, 10 * record}, [&] { is_released = true; });
      CHECK(is_released);
      CHECK(counted.size_bytes() == 10 * record);
      CHECK(counted.shared_pages().empty());
    }
  }
}

TEST_CASE("what a rank did arrives as it was, and adds up") {
  RankReport rank{.numbers = {.pairs = std::uint64_t{1} << 60, .num_blocks = 5, .multiply_s = 0.1 + 0.2},
                  .host = "node 7",
                  .backend = "cuda",
                  .kernel = "esc",
                  .device = "NVIDIA H200"};
  rank.numbers.peak_device_bytes = 3;
  rank.numbers.proof = {.is_proven = true, .num_rows = 8};
  const RankReport same = decode(encode(rank));
  CHECK(same.host == rank.host);
  CHECK(same.backend == rank.backend);
  CHECK(same.kernel == rank.kernel);
  CHECK(same.device == rank.device);
  CHECK(same.numbers.pairs == rank.numbers.pairs);
  CHECK(same.numbers.multiply_s == rank.numbers.multiply_s);
  CHECK(decode(encode(RankReport())).backend.empty());
  DistributedReport report{.whole = {}, .ranks = {RankReport(), rank, same}};
  add_up(report);
  CHECK(report.whole.pairs == std::uint64_t{1} << 61);
  CHECK(report.whole.c_blocks == 10);
  CHECK(report.whole.plan.kernel == "esc");
  CHECK(report.whole.plan.backend == Backend::cuda);
  CHECK(report.whole.proof.num_rows == 16);
  CHECK(report.whole.peak_device_bytes == 3);
}
