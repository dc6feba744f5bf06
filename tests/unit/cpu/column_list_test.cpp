// C blocks from counters of pairs per column, and how large units of work may be.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "cpu/output/queue.hpp"
#include "cpu/rows/units.hpp"
#include "cpu/simd/column_list.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

struct Columns {
  std::vector<std::uint32_t> position;
  std::vector<std::uint32_t> cols;
  std::vector<std::uint32_t> ends;

  bool operator==(const Columns&) const = default;
};

Columns list(const cpu::ColumnLister& lister, const std::vector<std::uint32_t>& counts) {
  const auto size = static_cast<std::uint32_t>(counts.size());
  const AlignedArray<std::uint32_t> position(size + 1);
  std::copy(counts.begin(), counts.end(), position.data());
  position.data()[size] = 4711;
  std::vector<cpu::CBlock> c_blocks(size + cpu::kCBlocksAhead);
  const std::uint32_t count = lister.list(position.data(), size, c_blocks.data());
  CHECK(position.data()[size] == 4711);
  Columns found{.position = {position.data(), position.data() + size}, .cols = {}, .ends = {}};
  for (std::uint32_t x = 0; x < count; ++x) {
    found.cols.push_back(c_blocks[x].col);
    found.ends.push_back(c_blocks[x].end);
  }
  return found;
}

/// Written out: a column at a time.
Columns expected_list(const std::vector<std::uint32_t>& counts) {
  Columns expected;
  std::uint32_t pairs = 0;
  for (std::uint32_t col = 0; col < counts.size(); ++col) {
    expected.position.push_back(pairs);
    pairs += counts[col];
    if (counts[col] == 0) continue;
    expected.cols.push_back(col);
    expected.ends.push_back(pairs);
  }
  return expected;
}

}  // namespace

TEST_CASE("cpu: columns with pairs are listed, whatever their number") {
  std::vector<cpu::ColumnLister> listers = {cpu::portable_lister()};
  if (cpu::avx512_vnni_available()) listers.push_back(cpu::avx512_lister());
  std::mt19937 random(1);
  for (const cpu::ColumnLister& lister : listers) {
    for (const std::size_t size : {1u, 15u, 16u, 17u, 31u, 32u, 100u, 1000u}) {
      for (const std::uint32_t one_in : {1u, 3u, 40u}) {
        std::vector<std::uint32_t> counts(size);
        for (std::uint32_t& count : counts)
          count = random() % one_in == 0 ? static_cast<std::uint32_t>(1 + random() % 5) : 0;
        INFO(size << " columns, one in " << one_in);
        CHECK((list(lister, counts) == expected_list(counts)));
      }
      CHECK((list(lister, std::vector<std::uint32_t>(size, 0)) == expected_list(std::vector<std::uint32_t>(size, 0))));
    }
  }
}

TEST_CASE("cpu: rows are joined up to the records that are asked for") {
  const std::vector<std::uint64_t> pairs(100, 10);
  cpu::RowUnitMaker maker(pairs, 1000, 1000, 1);
  cpu::RowUnit unit;
  CHECK(maker.next(unit, 45));
  CHECK(unit.row_end - unit.row_begin == 4);
  CHECK(maker.next(unit, 1));
  CHECK(unit.row_end - unit.row_begin == 1);  // a row is not cut for that
  CHECK(maker.next(unit, 1000));
  CHECK(unit.row_end == 100);
}

TEST_CASE("cpu: units fill whole buffers only where buffers are short") {
  constexpr std::uint64_t kRecordBytes = 1u << 10;
  constexpr std::uint64_t kBufferBytes = 4u << 20;
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .num_threads = 1};
  MemorySink sink({.n = 1, .m = 1});
  cpu::OutputQueue queue(sink, 6, kBufferBytes, kRecordBytes, run);
  std::vector<cpu::OutputQueue::Job> jobs(4);
  std::vector<std::uint64_t> useful;
  for (cpu::OutputQueue::Job& job : jobs) {
    CHECK(queue.start(job, [&] {
      useful.push_back(queue.useful_bytes());
      return true;
    }));
  }
  CHECK((useful == std::vector<std::uint64_t>{1u << 20, 1u << 20, 1u << 20, 1u << 20}));
  cpu::OutputQueue::Job fifth;
  CHECK(queue.start(fifth, [&] { return queue.useful_bytes() == kBufferBytes; }));  // two of six are free
  cpu::OutputQueue small(sink, 6, 1u << 16, kRecordBytes, run);
  CHECK(small.start(fifth, [&] { return small.useful_bytes() == 1u << 16; }));
}

}  // namespace spmm::test
