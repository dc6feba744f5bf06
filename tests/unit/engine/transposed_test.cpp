// Operands that are transposed while they are read: against explicitly transposed ones, whatever reads them.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "io/factor_source.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/memory_stream.hpp"
#include "support/process.hpp"

namespace {

using namespace spmm;

std::unique_ptr<Source> transpose_of(const Source& source) {
  static StageClock clock;
  static const Run run{.clock = clock, .on_progress = test::kNoProgress};
  return io::make_factor_source(source, true, {}, run);
}

std::vector<std::byte> records_of(const Source& source, std::uint64_t piece) {
  const std::uint64_t record = input_record_bytes(source.header().m);
  const std::uint64_t count = source.header().num_blocks;
  std::vector<std::byte> records(count * record);
  for (std::uint64_t at = 0; at < count; at += piece) {
    source.read(at, std::min(piece, count - at), records.data() + at * record);
  }
  return records;
}

}  // namespace

TEST_CASE("records of every side are transposed where they lie, however they are read") {
  for (std::uint32_t m = 1; m <= kMaxBlockDim; ++m) {
    const std::uint32_t count = m <= 8 || m == 16 ? 400 : 40;
    const BlockMatrix matrix = test::random_matrix(30 * m, m, count, 65535, m);
    const test::MemorySource plain(matrix);
    const auto source = transpose_of(plain);
    INFO("m " << m);
    CHECK(source->header() == matrix.header());
    const std::vector<std::byte> expected = records_of(test::MemorySource(test::transposed(matrix)), count);
    CHECK((records_of(*source, count) == expected));
    CHECK((records_of(*source, 7) == expected));
    CHECK((records_of(*transpose_of(*source), count) == records_of(plain, count)));
  }
  // More than the source reads at a time.
  const BlockMatrix large = test::random_matrix(64 * 100, 64, 90, 65535, 1);
  const test::MemorySource plain(large);
  CHECK((records_of(*transpose_of(plain), 90) == records_of(test::MemorySource(test::transposed(large)), 90)));
}

TEST_CASE("a transposed operand has an identity of its own") {
  const test::TemporaryFolder folder;
  write_matrix(folder.file("a"), test::random_matrix(40, 4, 20, 9, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a file just written has none
  const auto plain = open_file_source(folder.file("a"));
  REQUIRE_FALSE(plain->identity().empty());
  CHECK_FALSE(transpose_of(*plain)->identity().empty());
  CHECK(transpose_of(*plain)->identity() != plain->identity());
}
