// Sources and sinks of products out of core: signals, failures of memory, long rows.
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "engine/slabs/cut.hpp"
#include "engine/slabs/streams.hpp"
#include "spmm/error.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/failing_memory.hpp"
#include "support/memory_stream.hpp"
#include "support/wrapped_calls.hpp"

namespace {

using namespace spmm;
using test::kNoProgress;

constexpr std::uint32_t kBlockSide = 8;
const std::uint64_t kRecordBytes = output_record_bytes(kBlockSide);

/// Records of block row i, columns [begin, end), with the column as content.
std::vector<std::byte> row_records(std::uint32_t i, std::uint32_t begin, std::uint32_t end) {
  std::vector<std::byte> bytes((end - begin) * kRecordBytes);
  for (std::uint32_t j = begin; j < end; ++j) {
    const BlockIndex at{.i = i, .j = j};
    std::byte* const record = bytes.data() + (j - begin) * kRecordBytes;
    std::memcpy(record, &at, kIndexBytes);
    std::memcpy(record + kIndexBytes, &j, sizeof j);
  }
  return bytes;
}

/// Results of two slabs of B: `num_rows` rows of `num_columns` blocks each.
std::deque<slabs::KeepingSink> two_results(std::uint32_t num_rows, std::uint32_t num_columns, std::uint64_t& left) {
  std::deque<slabs::KeepingSink> results;
  for (std::uint32_t x = 0; x < 2; ++x) {
    results.emplace_back(left, kRecordBytes);
    for (std::uint32_t i = 0; i < num_rows; ++i) {
      results.back().append(row_records(i, x * num_columns, (x + 1) * num_columns), [] {});
    }
  }
  return results;
}

/// Takes records and releases them when it is asked to; counts.
class HoldingSink : public Sink {
 public:
  void append(std::span<const std::byte> records, std::function<void()> release) override {
    num_bytes += records.size();
    ++num_appended;
    held.push_back(std::move(release));
    if (on_append) on_append();
  }
  void finish(const MatrixHeader&) override {}
  void publish() override {}
  void release_all() {
    for (const auto& release : held) release();
    held.clear();
  }

  std::vector<std::function<void()>> held;
  std::uint64_t num_bytes = 0;
  int num_appended = 0;
  std::function<void()> on_append;
};

}  // namespace

TEST_CASE("merging stops when the run is cancelled, also while the sink holds every buffer") {
  std::uint64_t left = 1u << 30;
  std::deque<slabs::KeepingSink> results = two_results(40, 500, left);  // 10 MB, more than all buffers
  std::atomic<bool> cancel = false;
  StageClock clock;
  HoldingSink sink;
  sink.on_append = [&] { cancel = sink.num_appended == 3; };
  CHECK_THROWS_AS(
      slabs::merge_rows(results, kBlockSide, sink, {.clock = clock, .on_progress = kNoProgress, .cancel = &cancel}),
      Interrupted);
  sink.release_all();  // what the sink still holds is still there
}

TEST_CASE("merging waits for the sink's buffers at the end, and that wait can be cancelled") {
  std::uint64_t left = 1u << 30;
  std::deque<slabs::KeepingSink> results = two_results(2, 100, left);
  std::atomic<bool> cancel = false;
  StageClock clock;
  HoldingSink sink;
  std::jthread canceller;
  sink.on_append = [&] {
    canceller = std::jthread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      cancel = true;
    });
  };
  CHECK_THROWS_AS(
      slabs::merge_rows(results, kBlockSide, sink, {.clock = clock, .on_progress = kNoProgress, .cancel = &cancel}),
      Interrupted);
  CHECK(sink.num_bytes == 2 * 200 * kRecordBytes);
  sink.release_all();
}

TEST_CASE("a row longer than all buffers is merged in order and in parts") {
  constexpr std::uint32_t kColumns = 40'000;  // 21 MB in two results
  std::uint64_t left = 1u << 30;
  std::deque<slabs::KeepingSink> results = two_results(1, kColumns, left);
  CHECK(left == (1u << 30) - 2 * kColumns * kRecordBytes);
  class CheckingSink : public Sink {
   public:
    void append(std::span<const std::byte> records, std::function<void()> release) override {
      largest = std::max<std::uint64_t>(largest, records.size());
      for (std::size_t at = 0; at < records.size(); at += kRecordBytes, ++next) {
        BlockIndex index;
        std::memcpy(&index, records.data() + at, kIndexBytes);
        std::uint32_t value = 0;
        std::memcpy(&value, records.data() + at + kIndexBytes, sizeof value);
        in_order &= index.i == 0 && index.j == next && value == next;
      }
      release();
    }
    void finish(const MatrixHeader&) override {}
    void publish() override {}
    std::uint32_t next = 0;
    std::uint64_t largest = 0;
    bool in_order = true;
  } sink;
  StageClock clock;
  const std::uint64_t before = array_bytes();
  test::restart_array_peak();
  slabs::merge_rows(results, kBlockSide, sink, {.clock = clock, .on_progress = kNoProgress, .cancel = nullptr});
  CHECK(sink.in_order);
  CHECK(sink.next == 2 * kColumns);
  CHECK(sink.largest <= 1u << 20);
  CHECK(test::peak_array_bytes() <= before + (4u << 20));
  CHECK(array_bytes() + 2 * kColumns * kRecordBytes <= before + (2u << 20));  // what is merged is freed
}

TEST_CASE("memory that fails while results are merged: an error, every buffer released, no wait for ever") {
  int num_failures = 0;
  for (std::int64_t num_left = 0; num_left < 40; ++num_left) {
    std::uint64_t left = 1u << 30;
    std::deque<slabs::KeepingSink> results = two_results(10, 300, left);
    StageClock clock;
    HoldingSink sink;
    int num_released = 0;
    sink.held.reserve(100);
    sink.on_append = [&] {
      num_released += static_cast<int>(sink.held.size());
      sink.release_all();
    };
    bool failed = false;
    {
      const test::FailingMemory failing(num_left);
      try {
        slabs::merge_rows(results, kBlockSide, sink, {.clock = clock, .on_progress = kNoProgress, .cancel = nullptr});
      } catch (const std::bad_alloc&) {
        failed = true;
      }
    }
    num_failures += failed ? 1 : 0;
    CHECK(num_released == sink.num_appended);
    CHECK((failed || sink.num_bytes == 10 * 600 * kRecordBytes));
  }
  CHECK(num_failures > 3);
  CHECK(num_failures < 40);
}

TEST_CASE("a kept result calls release once, also when there is no memory or no room") {
  const std::vector<std::byte> records = row_records(0, 0, 100);
  for (std::int64_t num_left = 0; num_left < 3; ++num_left) {
    std::uint64_t left = 1u << 20;
    slabs::KeepingSink sink(left, kRecordBytes);
    int num_released = 0;
    std::function<void()> release = [&] { ++num_released; };
    {
      const test::FailingMemory failing(num_left);
      try {
        sink.append(records, std::move(release));
      } catch (const std::bad_alloc&) {
      }
    }
    CHECK(num_released == 1);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(SPMM_TESTS_EMULATED)  // they map memory
  {
    std::uint64_t left = 1u << 20;
    slabs::KeepingSink sink(left, kRecordBytes);
    int num_released = 0;
    bool failed = false;
    {
      const test::NoMoreMappings limited;
      try {
        sink.append(records, [&] { ++num_released; });
      } catch (const OutOfMemory&) {
        failed = true;
      }
    }
    CHECK(failed);
    CHECK(num_released == 1);
  }
#endif
  std::uint64_t left = 100;
  slabs::KeepingSink sink(left, kRecordBytes);
  int num_released = 0;
  CHECK_THROWS_AS(sink.append(records, [&] { ++num_released; }), slabs::SlabResultTooLarge);
  CHECK(num_released == 1);
}

TEST_CASE("a slab's reads and lists notice a cancelled run") {
  const BlockMatrix matrix = test::random_matrix(4 * 100, 4, 1000, 9, 1);
  const test::MemorySource source(matrix);
  std::atomic<bool> cancel = false;
  StageClock clock;
  const Run run{.clock = clock, .on_progress = kNoProgress, .cancel = &cancel, .num_threads = 2};
  const auto buckets = slabs::buckets_of(source, slabs::Along::rows, run);
  const slabs::Slab all{.begin = 0, .end = slabs::kNumBuckets, .num_blocks = 1000};
  const slabs::SlabSource slab(source, buckets, all, run);
  std::vector<std::byte> raw(1000 * input_record_bytes(4));
  slab.read(0, 1000, raw.data());
  cancel = true;
  CHECK_THROWS_AS(slab.read(0, 1000, raw.data()), Interrupted);
  CHECK_THROWS_AS(slabs::SlabSource(source, buckets, all, run), Interrupted);
  CHECK_THROWS_AS(slabs::count_buckets(buckets, run), Interrupted);
  CHECK_THROWS_AS(slabs::buckets_of(source, slabs::Along::rows, run), Interrupted);
}

TEST_CASE("the first record out of range is named, whichever thread finds it") {
  BlockMatrix matrix = test::random_matrix(4 * 100, 4, 9000, 9, 1);
  for (std::size_t r = 700; r < 9000; r += 50) matrix.index[r].j = 100;
  const test::MemorySource source(matrix, "a.bin");
  StageClock clock;
  const Run run{.clock = clock, .on_progress = kNoProgress, .cancel = nullptr, .num_threads = 4};
  for (int t = 0; t < 10; ++t) {
    std::string message;
    try {
      slabs::buckets_of(source, slabs::Along::rows, run);
    } catch (const FormatError& error) {
      message = error.what();
    }
    CHECK(message.find("a.bin, record 700 ") != std::string::npos);
  }
}
