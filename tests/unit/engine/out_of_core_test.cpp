// Products out of core: the same bytes for every limit, what is refused, and the parts that they are made of.
#include "engine/out_of_core.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/records/head.hpp"
#include "engine/sorted_records.hpp"
#include "io/files/scratch_file.hpp"
#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/memory_stream.hpp"
#include "support/process.hpp"
#include "support/wrapped_calls.hpp"

namespace {

using namespace spmm;
using namespace spmm::out_of_core;

Options within(std::uint64_t limit_bytes, unsigned num_threads = 1) {
  EngineOptions engine;
  engine.num_threads = num_threads;
  engine.memory_limit_bytes = limit_bytes;
  ProductOptions product;
  product.backend = Backend::cpu;
  product.kernel = "row-merge";
  return {engine, product};
}

/// Two files and their product at once.
class Operands {
 public:
  Operands(const BlockMatrix& a, const BlockMatrix& b)
      : bytes((a.index.size() + b.index.size()) * input_record_bytes(a.m)) {
    write_matrix(file("a"), a);
    write_matrix(file("b"), b);
    multiply(file("a"), file("b"), file("c"), within(0));
    expected_ = test::bytes_of(file("c"));
  }

  /// The report of a product within a limit, which has the bytes of the product at once.
  [[nodiscard]] Report check(const Options& options) const {
    const Report report = multiply(file("a"), file("b"), file("limited"), options);
    CHECK((test::bytes_of(file("limited")) == expected_));
    std::filesystem::remove(file("limited"));
    return report;
  }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }

  std::uint64_t bytes;

 private:
  test::TemporaryFolder folder_;
  std::string expected_;
};

/// A scratch file of 8 MB, and a Run to fill it with.
struct Scratch {
  test::TemporaryFolder folder{};
  std::vector<std::string> folders{folder.path().string(), "/var/tmp"};
  io::ScratchFile file{folders, 8u << 20};
  StageClock clock{};
  Run run{.clock = clock, .on_progress = test::kNoProgress, .cancel = nullptr, .num_threads = 2};
};

}  // namespace

TEST_CASE("with less and less memory a product builds its operands more often, without a cliff") {
  struct Shape {
    std::uint32_t m;
    std::uint32_t rows;
    std::uint32_t blocks;
  };
  const auto [m, rows, blocks] = GENERATE(Shape{8, 1024, 30'000}, Shape{1, 8'192, 100'000}, Shape{1, 1'024, 314'572});
  const test::TemporaryFolder folder;
  write_matrix(folder.file("a"), test::random_matrix(rows * m, m, blocks, 100, 1));
  write_matrix(folder.file("b"), test::random_matrix(rows * m, m, blocks, 100, 2));
  const double operands = 2.0 * blocks * static_cast<double>(input_record_bytes(m));
  double before = 30;  // readings of both operands
  for (double share = 1.5; share > 0.1; share *= 0.75) {
    const auto limit = static_cast<std::uint64_t>(share * operands);
    const Report report = multiply(folder.file("a"), folder.file("b"), folder.file("c"), within(limit));
    const double readings = static_cast<double>(report.stage(Stage::read).bytes) / operands;
    INFO("m = " << m << ", limit " << share << " times the operands, " << report.plan.num_ranges << " x "
                << report.plan.num_slabs << ", " << readings << " readings");
    CHECK(readings < std::max(8.0, 1.6 * before));
    before = readings;
  }
}

TEST_CASE("the limit that a message names is enough") {
  struct Shape {
    std::uint32_t m;
    std::uint32_t rows;
    std::uint32_t blocks;
  };
  const auto [m, rows, blocks] = GENERATE(Shape{64, 64, 300}, Shape{8, 2048, 10'000}, Shape{1, 1u << 20, 30'000});
  const Operands operands(test::random_matrix(rows * m, m, blocks, 65535, 1),
                          test::random_matrix(rows * m, m, blocks, 65535, 2));
  for (const bool is_verified : {false, true}) {
    if (is_verified && m != 64) continue;  // with so little memory it takes long
    Options options = within(10'000, 3);
    options.verify_full = is_verified;
    const auto plan = [&] { return plan_multiply(operands.file("a"), operands.file("b"), options); };
    const std::string message = test::message_of<OutOfMemory>(plan);
    CHECK(test::message_of<OutOfMemory>([&] { static_cast<void>(operands.check(options)); }) == message);
    options.memory_limit_bytes = std::stoull(message.substr(message.find('(') + 1));
    options.memory_limit_bytes = std::max(options.memory_limit_bytes, plan().safe_limit_bytes);  // of the proof
    CHECK(plan().scratch_bytes != 0);
    CHECK(operands.check(options).proof.is_proven == is_verified);
  }
}

TEST_CASE("a block row that does not fit is multiplied in parts, each block of B once for each row") {
  constexpr std::uint32_t kBlocks = 100'000;
  BlockMatrix row{.n = 4 * kBlocks, .m = 1, .index = {}, .values = std::vector<std::uint16_t>(kBlocks, 65535)};
  for (std::uint32_t j = 0; j < kBlocks; ++j) row.index.push_back({5, 4 * j});
  BlockMatrix columns = test::random_matrix(4 * kBlocks, 1, kBlocks, 65535, 1);
  for (BlockIndex& at : columns.index) at.j %= 300;  // sums of several parts, which saturate
  std::sort(columns.index.begin(), columns.index.end());
  columns.index.erase(std::unique(columns.index.begin(), columns.index.end()), columns.index.end());
  columns.values.resize(columns.index.size());
  const Operands operands(row, columns);
  for (const std::uint64_t limit : {1'000'000u, 200'000u, 110'000u}) {
    INFO(limit);
    const Report report = operands.check(within(limit));
    CHECK(report.plan.num_slabs > 1);
    CHECK(static_cast<double>(report.stage(Stage::read).bytes) < 4.0 * static_cast<double>(operands.bytes));
    CHECK(report.saturated_elements ==
          multiply(operands.file("a"), operands.file("b"), "/dev/null", within(0)).saturated_elements);
  }
  // A row of B that does not fit.
  for (BlockIndex& at : row.index) at.i = 5;
  BlockMatrix one{.n = 4 * kBlocks, .m = 1, .index = {{7, 5}, {9, 5}}, .values = {65535, 3}};
  CHECK(Operands(one, row).check(within(200'000)).c_blocks == 2 * kBlocks);
}

TEST_CASE("ranges that meet most rows of B") {
  const BlockMatrix a = test::random_matrix(50'000, 1, 200'000, 300, 1);
  const Operands operands(a, test::random_matrix(50'000, 1, 60'000, 300, 2));
  CHECK(operands.check(within(1'000'000)).plan.num_ranges > 1);
}

TEST_CASE("two long block rows: records of one part after the other are put in their order") {
  BlockMatrix rows{.n = 4'000, .m = 1, .index = {}, .values = std::vector<std::uint16_t>(8'000, 3)};
  for (std::uint32_t x = 0; x < 8'000; ++x) rows.index.push_back({5 + x % 2, x / 2});
  const Operands operands(rows, test::random_matrix(4'000, 1, 400'000, 300, 1));
  CHECK(operands.check(within(2'000'000)).plan.num_slabs > 1);
}

TEST_CASE("an operand without blocks needs no memory for the other one, which is checked all the same") {
  constexpr std::uint64_t kLimit = 100'000;
  const BlockMatrix none{.n = 30'000, .m = 1, .index = {}, .values = {}};
  BlockMatrix large = test::random_matrix(30'000, 1, 100'000, 300, 1);
  CHECK(Operands(none, large).check(within(kLimit)).c_blocks == 0);
  CHECK(Operands(large, none).check(within(kLimit)).c_blocks == 0);
  CHECK(Operands(none, none).check(within(kLimit)).c_blocks == 0);
  const Operands files(none, large);
  CHECK(plan_multiply(files.file("a"), files.file("b"), within(kLimit)).predicted_s < 60);
  const BlockMatrix large_blocks{.n = 64 * 488, .m = 64, .index = {}, .values = {}};
  CHECK(Operands(large_blocks, large_blocks).check(within(20'000)).c_blocks ==
        0);  // less than a record for each buffer
  BlockMatrix upper = test::random_matrix(15'000, 1, 100'000, 300, 2);
  upper.n = 30'000;
  const Operands operands(upper, large);
  Options options = within(kLimit);
  options.rows = {.first = 20'000, .end = 25'000};
  CHECK(multiply(operands.file("a"), operands.file("b"), "/dev/null", options).c_blocks == 0);
  large.index.back() = large.index.front();
  write_matrix(operands.file("b"), large);
  CHECK_THROWS_AS(multiply(operands.file("a"), operands.file("b"), "/dev/null", options), FormatError);
}

TEST_CASE("a disk that is full while operands are sorted or merged") {
  const BlockMatrix dense = test::random_matrix(16 * 64, 16, 64 * 64, 300, 1);
  const Operands operands(dense, test::random_matrix(16 * 64, 16, 64 * 64, 300, 2));
  constexpr std::uint64_t kLimit = 1'200'000;
  REQUIRE(operands.check(within(kLimit)).plan.num_slabs > 1);
  const test::CallsRestored table;
  test::system_calls.fallocate = [](int, int, off_t, off_t) {
    errno = EOPNOTSUPP;
    return -1;
  };
  // Of the one file that is written: sorted operands, then parts of them while they are sorted, and results.
  static bool is_behind = false;
  static const auto kOperands = static_cast<off_t>(operands.bytes);
  test::system_calls.pwrite = [](int fd, const void* from, size_t size, off_t offset) -> ssize_t {
    if (is_behind != (offset >= kOperands)) return test::real_calls.pwrite(fd, from, size, offset);
    errno = ENOSPC;
    return -1;
  };
  for (const bool behind : {false, true}) {
    is_behind = behind;
    const std::string message = test::message_of<OutOfMemory>(
        [&] { multiply(operands.file("a"), operands.file("b"), operands.file("limited"), within(kLimit)); });
    CHECK(message.find("No space left on device") != std::string::npos);
    CHECK(message.find("set TMPDIR") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(operands.file("limited")));
  }
}

TEST_CASE("a file that is both operands is sorted once, and transposed ones as they are read") {
  const test::TemporaryFolder folder;
  write_matrix(folder.file("a"), test::random_matrix(8 * 8192, 8, 30'000, 65535, 1));
  const auto source = open_file_source(folder.file("a"));
  // A file that has just been changed has no identity: it may change again within the same tick of its clock.
  while (source->identity().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (const bool transposed : {false, true}) {
    Options options = within(0);
    options.transpose_a = transposed;
    multiply(folder.file("a"), folder.file("a"), folder.file("c"), options);
    options.memory_limit_bytes = 2'400'000;
    const Report report = multiply(folder.file("a"), folder.file("a"), folder.file("d"), options);
    CHECK(report.plan.scratch_bytes == (transposed ? 3 : 2) * 30'000 * input_record_bytes(8));
    CHECK((test::bytes_of(folder.file("c")) == test::bytes_of(folder.file("d"))));
  }
}

TEST_CASE("without a folder on a disk the product is refused, and the message says why; matrices in memory spill") {
  const BlockMatrix a = test::random_matrix(8 * 2048, 8, 20'000, 65535, 1);
  const Operands operands(a, a);
  const Options options = within(2'400'000);
  CHECK(operands.check(options).plan.scratch_bytes == operands.bytes / 2 * 3);  // in the output's folder
  BlockMatrix diagonal{.n = 8 * 10'000, .m = 8, .index = {}, .values = std::vector<std::uint16_t>(640'000, 2)};
  for (std::uint32_t i = 0; i < 10'000; ++i) diagonal.index.push_back({i, i});
  Engine engine({.num_threads = 1, .memory_limit_bytes = 10'000 * output_record_bytes(8) + 1'000'000});
  Report report;
  CHECK(engine.multiply(diagonal, diagonal, options, &report).index.size() == 10'000);
  CHECK(report.plan.scratch_bytes == 3 * 10'000 * input_record_bytes(8));
  const test::Variable nowhere("TMPDIR", "/nowhere");
  const test::CallsRestored table;
  test::system_calls.fallocate = [](int, int, off_t, off_t) {
    errno = ENOSPC;
    return -1;
  };
  const std::string message =
      test::message_of<OutOfMemory>([&] { multiply(operands.file("a"), operands.file("b"), "/dev/null", options); });
  CHECK(message.find("/nowhere: No such file") != std::string::npos);
  CHECK(message.find("/var/tmp: ") != std::string::npos);
  CHECK(message.find("set TMPDIR") != std::string::npos);
}

TEST_CASE("sorted records, at once and in parts") {
  for (const std::uint32_t side : {1'000u, (1u << 24) - 1, 4'000'000'000u}) {
    const BlockMatrix matrix = test::random_matrix(side, 1, 60'000, 65535, side);
    const auto source = make_memory_source(matrix, "A");
    std::vector<std::size_t> order(matrix.index.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](std::size_t x, std::size_t y) { return matrix.index[x] < matrix.index[y]; });
    for (const std::uint64_t memory_bytes : {4'000'000u, 400'000u, 20'000u}) {
      INFO("side " << side << ", " << memory_bytes);
      Scratch scratch;
      SortedRecords sorted = sort_records(*source, scratch.file, 1u << 20, 4u << 20, memory_bytes, 4096, scratch.run);
      std::size_t num_wrong = 0;
      for (std::uint32_t x = 0; x < order.size(); ++x) {
        std::array<std::byte, input_record_bytes(1)> raw;
        sorted.read(x, 1, raw.data());
        std::uint16_t value = 0;
        std::memcpy(&value, raw.data() + kIndexBytes, sizeof value);
        num_wrong += sorted.index(x) == matrix.index[order[x]] && value == matrix.values[order[x]] ? 0 : 1;
      }
      CHECK(num_wrong == 0);
    }
  }
}

TEST_CASE("one block as often as there are records occurs twice, however little memory there is to sort in") {
  for (const std::uint64_t memory_bytes : {300'000u, 20'000'000u}) {
    for (const std::uint32_t m : {1u, 4u}) {
      BlockMatrix same{.n = 4'000'000, .m = m, .index = {}, .values = {}};
      same.index.assign(50'000, {77, 99});
      for (std::uint32_t x = 1; x < 49'999; ++x) same.index[x] = {x, x};  // in two parts
      same.values.resize(same.index.size() * m * m, 1);
      const auto source = make_memory_source(same, "A");
      Scratch scratch;
      const std::string message = test::message_of<FormatError>(
          [&] { sort_records(*source, scratch.file, 0, 4u << 20, memory_bytes, 4096, scratch.run); });
      CHECK(message.find("A, block 49999: block (77, 99) was stored before in block 0") != std::string::npos);
    }
  }
}

TEST_CASE("ranges of a source: the same records from any record on, across narrow gaps and wide ones") {
  BlockMatrix matrix = test::random_matrix(3'000'000, 1, 5'000, 300, 1);
  std::sort(matrix.index.begin(), matrix.index.end());
  Scratch scratch;
  const auto source = make_memory_source(matrix, "B");
  const SortedRecords sorted = sort_records(*source, scratch.file, 0, 4u << 20, 4'000'000, 4096, scratch.run);
  std::mt19937 random(2);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  std::vector<RecordRange> ranges;
  std::vector<BlockIndex> expected;
  for (std::uint32_t begin = 0; begin < 4'000; begin = ranges.back().end + below(below(5) == 0 ? 500 : 30)) {
    ranges.push_back({.begin = begin, .end = begin + 1 + below(40)});
    for (std::uint32_t r = begin; r < ranges.back().end; ++r) expected.push_back(matrix.index[r]);
  }
  RangesSource some(*source, sorted, ranges);
  REQUIRE(some.header().num_blocks == expected.size());
  std::size_t num_wrong = 0;
  for (int x = 0; x < 300; ++x) {
    const std::uint64_t first = random() % expected.size();
    const std::uint64_t count = 1 + random() % (expected.size() - first);
    std::vector<std::byte> raw(count * input_record_bytes(1));
    some.restrict_to(first / 2, expected.size() - first / 2);
    some.read(first - first / 2, count, raw.data());
    for (std::uint64_t r = 0; r < count; ++r)
      num_wrong += read_index(raw.data() + r * input_record_bytes(1)) == expected[first + r] ? 0 : 1;
  }
  CHECK(num_wrong == 0);
}

TEST_CASE("a scratch file that is longer than files may be is not made, and no signal comes") {
  const test::TemporaryFolder folder;
  const std::vector<std::string> folders = {folder.path().string()};
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit less = before;
  less.rlim_cur = 1u << 20;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &less) == 0);
  const std::string message = test::message_of<OutOfMemory>([&] { io::ScratchFile(folders, 1u << 21); });
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  const bool is_told = message.find("File too large") != std::string::npos;
  CHECK((is_told || message.find("is in memory") != std::string::npos));
}
