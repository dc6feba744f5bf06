// Products out of core through a scratch file: the same bytes for every limit, and no limit at which much more is read.
#include "engine/slabs/sorted_product.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/records/head.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"
#include "support/process.hpp"
#include "support/wrapped_calls.hpp"

namespace {

using namespace spmm;

std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// What this process has read so far, from files and the page cache.
struct Reads {
  std::uint64_t bytes = 0;
  std::uint64_t calls = 0;
};

Reads reads_so_far() {
  std::ifstream in("/proc/self/io");
  Reads reads;
  std::string key;
  std::uint64_t value = 0;
  while (in >> key >> value) {
    if (key == "rchar:") reads.bytes = value;
    if (key == "syscr:") reads.calls = value;
  }
  REQUIRE(reads.calls != 0);
  return reads;
}

std::uint64_t read_so_far() {
  return reads_so_far().bytes;
}

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
class SortedOperands {
 public:
  SortedOperands(const BlockMatrix& a, const BlockMatrix& b) {
    write_matrix(folder_.file("a"), a);
    write_matrix(folder_.file("b"), b);
    multiply(folder_.file("a"), folder_.file("b"), folder_.file("c"), within(0));
    expected_ = bytes_of_file(folder_.file("c"));
  }

  /// The report of a product within a limit, which has the bytes of the product at once.
  [[nodiscard]] Report check(const Options& options) const {
    const std::string out = folder_.file("limited");
    const Report report = multiply(folder_.file("a"), folder_.file("b"), out, options);
    CHECK((bytes_of_file(out) == expected_));
    std::filesystem::remove(out);
    return report;
  }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }

 private:
  test::TemporaryFolder folder_;
  std::string expected_;
};

/// A matrix whose first record lies outside from the second read on.
class ChangingSource : public Source {
 public:
  explicit ChangingSource(const BlockMatrix& matrix) : whole_(make_memory_source(matrix, "A")) {}
  [[nodiscard]] const MatrixHeader& header() const override { return whole_->header(); }
  [[nodiscard]] const std::string& name() const override { return whole_->name(); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    whole_->read(first, count, dst);
    if (num_reads_++ != 0 && first == 0) std::fill_n(dst, sizeof(BlockIndex), std::byte{0xFF});
  }
  void check_unchanged() const override {}

 private:
  std::unique_ptr<Source> whole_;
  mutable unsigned num_reads_ = 0;
};

}  // namespace

TEST_CASE("a block row that meets all of B is streamed among slabs of others") {
  BlockMatrix a = test::random_matrix(8 * 4096, 8, 12'000, 300, 1);
  std::erase_if(a.index, [](const BlockIndex& at) { return at.i == 2000; });
  for (std::uint32_t x = 0; x < 4096; ++x) a.index.push_back({.i = 2000, .j = x});
  a.values.resize(a.index.size() * 64, 3);
  const SortedOperands operands(a, test::random_matrix(8 * 4096, 8, 30'000, 300, 2));
  for (const std::uint64_t limit : {2'400'000u, 1'200'000u}) {
    const Report report = operands.check(within(limit, 2));
    REQUIRE(report.plan.scratch_bytes != 0);
    CHECK(report.plan.num_a_slabs > 2);
    CHECK(report.plan.num_b_slabs == 1);
  }
}

TEST_CASE("an operand without blocks needs no memory for the other one, which is checked all the same") {
  constexpr std::uint64_t kLimit = 100'000;
  const BlockMatrix none{.n = 30'000, .m = 1, .index = {}, .values = {}};
  BlockMatrix large = test::random_matrix(30'000, 1, 100'000, 300, 1);
  CHECK(SortedOperands(none, large).check(within(kLimit)).c_blocks == 0);
  CHECK(SortedOperands(large, none).check(within(kLimit)).c_blocks == 0);
  CHECK(SortedOperands(none, none).check(within(kLimit)).c_blocks == 0);
  BlockMatrix upper = test::random_matrix(15'000, 1, 100'000, 300, 2);
  upper.n = 30'000;
  const SortedOperands operands(upper, large);
  Options options = within(kLimit);
  options.rows = {.first = 20'000, .end = 25'000};
  CHECK(multiply(operands.file("a"), operands.file("b"), "/dev/null", options).c_blocks == 0);
  large.index.back() = large.index.front();
  write_matrix(operands.file("b"), large);
  CHECK_THROWS_AS(multiply(operands.file("a"), operands.file("b"), "/dev/null", options), FormatError);
}

TEST_CASE("long rows that meet long rows read what they need once for each window of columns, in few calls") {
  for (const std::uint32_t m : {1u, 8u}) {
    const std::uint32_t side = m == 1 ? 2048 : 500;
    BlockMatrix skewed{.n = side * m, .m = m, .index = {}, .values = {}};
    for (std::uint32_t i = 0; i < side; ++i) {  // the first rows and columns are the longest
      for (std::uint32_t j = 0; j < side; j += 1 + i * j / side + i / 2) skewed.index.push_back({i, j});
    }
    skewed.values.resize(skewed.index.size() * m * m, 7);
    const SortedOperands operands(skewed, skewed);
    const std::uint64_t bytes = skewed.index.size() * input_record_bytes(m);
    for (const std::uint64_t limit : {bytes, bytes / 2}) {
      const Reads before = reads_so_far();
      const Report report = multiply(operands.file("a"), operands.file("b"), "/dev/null", within(limit, 2));
      const Reads after = reads_so_far();
      INFO("m " << m << ", " << skewed.index.size() << " blocks, limit " << limit << ": " << after.bytes - before.bytes
                << " bytes in " << after.calls - before.calls << " calls, " << report.pairs << " pairs");
      CHECK(report.plan.scratch_bytes != 0);
      CHECK(after.bytes - before.bytes < 6 * report.pairs * input_record_bytes(m) + 12 * bytes);
      CHECK(after.calls - before.calls < 16 * skewed.index.size());
      CHECK(operands.check(within(limit, 2)).pairs == report.pairs);
    }
  }
}

TEST_CASE("slabs are sorted after all if they need more of B than was expected") {
  constexpr std::uint32_t kMiddle = 8192;
  BlockMatrix hub = test::random_matrix(8 * 2 * kMiddle, 8, 10'000, 2047, 1);
  std::erase_if(hub.index, [](BlockIndex at) { return at.i == kMiddle || at.j == kMiddle + 1; });
  for (std::uint32_t x = kMiddle - 5000; x < kMiddle + 5000; ++x) {
    hub.index.push_back({kMiddle, x});
    if (x != kMiddle) hub.index.push_back({x, kMiddle + 1});
  }
  std::shuffle(hub.index.begin(), hub.index.end(), std::mt19937(1));
  hub.values.resize(hub.index.size() * 64, 7);
  const std::uint64_t limit = hub.index.size() * input_record_bytes(8) * 2;
  CHECK(SortedOperands(hub, hub).check(within(limit, 2)).plan.scratch_bytes != 0);
}

TEST_CASE("dense operands are sorted into slabs of rows and of columns, which read their own records alone") {
  const test::TemporaryFolder folder;  // 4.8 MB each
  constexpr std::uint32_t kBlocks = 96 * 96;
  write_matrix(folder.file("a"), test::random_matrix(16 * 96, 16, kBlocks, 2047, 1));
  write_matrix(folder.file("b"), test::random_matrix(16 * 96, 16, kBlocks, 2047, 2));
  multiply(folder.file("a"), folder.file("b"), folder.file("c"), within(0));
  for (const std::uint64_t limit : {10'000'000u, 8'300'000u}) {
    const std::uint64_t before = read_so_far();
    const Report report = multiply(folder.file("a"), folder.file("b"), folder.file("limited"), within(limit));
    const std::uint64_t operand_bytes = 2 * kBlocks * input_record_bytes(16);
    const double passes = static_cast<double>(read_so_far() - before) / static_cast<double>(operand_bytes);
    INFO("limit " << limit << ": " << report.plan.num_a_slabs << " x " << report.plan.num_b_slabs << " slabs, "
                  << passes << " passes");
    CHECK((bytes_of_file(folder.file("limited")) == bytes_of_file(folder.file("c"))));
    CHECK(report.plan.scratch_bytes == operand_bytes);
#ifndef SPMM_TESTS_EMULATED  // plain loops multiply for so long that reading B again and again does not count
    CHECK(report.plan.num_b_slabs > 1);
#endif
    // Sorting and lists of indices; each slab as often as the other operand has slabs.
    CHECK(passes < 8 + (report.plan.num_a_slabs + report.plan.num_b_slabs) / 2.0);
  }
}

TEST_CASE("a disk that is full while the operands are sorted: slabs are read from the operands") {
  const SortedOperands operands(test::random_matrix(8 * 8192, 8, 30'000, 65535, 1),
                                test::random_matrix(8 * 8192, 8, 30'000, 65535, 2));
  struct Restore {
    ~Restore() { test::system_calls = test::real_calls; }
  } const restore;
  test::system_calls.fallocate = [](int, int, off_t, off_t) {
    errno = EOPNOTSUPP;
    return -1;
  };
  static int num_writes = 0;
  num_writes = 0;
  test::system_calls.pwrite = [](int fd, const void* from, size_t size, off_t offset) -> ssize_t {
    if (++num_writes != 2) return test::real_calls.pwrite(fd, from, size, offset);
    errno = ENOSPC;
    return -1;
  };
  const Report report = operands.check(within(2'400'000));
  CHECK(num_writes > 2);
  CHECK(report.plan.scratch_bytes == 0);
  CHECK(report.plan.why_no_scratch.find("No space left on device") != std::string::npos);
}

TEST_CASE("a file that is both operands is sorted once, and transposed ones as they are read") {
  const test::TemporaryFolder folder;
  write_matrix(folder.file("a"), test::random_matrix(8 * 8192, 8, 30'000, 65535, 1));
  for (const bool transposed : {false, true}) {
    Options options = within(0);
    options.transpose_a = transposed;
    multiply(folder.file("a"), folder.file("a"), folder.file("c"), options);
    options.memory_limit_bytes = 2'400'000;
    const Report report = multiply(folder.file("a"), folder.file("a"), folder.file("d"), options);
    CHECK(report.plan.scratch_bytes != 0);
    CHECK((bytes_of_file(folder.file("c")) == bytes_of_file(folder.file("d"))));
  }
}

/// Blocks on the diagonal and on `width` on each side of it, side 1.
BlockMatrix band_of(std::uint32_t side, std::uint32_t width) {
  BlockMatrix band{.n = side, .m = 1, .index = {}, .values = {}};
  for (std::uint32_t i = 0; i < side; ++i) {
    for (std::uint32_t j = i - std::min(i, width); j <= std::min(side - 1, i + width); ++j)
      band.index.push_back({i, j});
  }
  band.values.resize(band.index.size(), 7);
  return band;
}

TEST_CASE("slabs of A that need little of B have more rows") {
  const BlockMatrix band = band_of(20'000, 13);
  const Report report = SortedOperands(band, band).check(within(1'300'000, 2));
  CHECK(report.plan.scratch_bytes != 0);
  CHECK(report.plan.num_a_slabs > 2);
  CHECK(report.plan.num_a_slabs < 60);
}

TEST_CASE("elements come into order as one number, or as records if their indices are too long") {
  const test::TemporaryFolder folder;
  const std::vector<std::string> folders = {folder.path().string()};
  StageClock clock;
  const Run run{.clock = clock, .on_progress = test::kNoProgress, .cancel = nullptr, .num_threads = 2};
  for (const std::uint32_t side : {1'000u, (1u << 24) - 1, 1u << 24}) {
    BlockMatrix matrix = test::random_matrix(side, 1, 60'000, 65535, side);
    const auto source = make_memory_source(matrix, "A");
    for (const slabs::Along along : {slabs::Along::rows, slabs::Along::columns}) {
      INFO("side " << side << (along == slabs::Along::rows ? ", rows" : ", columns"));
      std::string why;
      const io::ScratchFile file = io::ScratchFile::make(folders, 1u << 20, why);
      if (!file.is_open()) return;  // the folder is in memory
      const slabs::SortedMatrix sorted(*source, file, {.along = along, .memory_bytes = 400'000}, run);
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint16_t> expected;
      for (std::size_t x = 0; x < matrix.index.size(); ++x) {
        const auto [i, j] = matrix.index[x];
        expected[along == slabs::Along::rows ? std::pair(i, j) : std::pair(j, i)] = matrix.values[x];
      }
      std::vector<std::byte> raw(matrix.index.size() * input_record_bytes(1));
      sorted.read(0, matrix.index.size(), raw.data());
      const std::byte* from = raw.data();
      std::size_t num_wrong = 0;
      for (const auto& [place, element] : expected) {
        const auto [i, j] = read_index(from);
        std::uint16_t value = 0;
        std::memcpy(&value, from + kIndexBytes, sizeof value);
        const auto here = along == slabs::Along::rows ? std::pair(i, j) : std::pair(j, i);
        num_wrong += here == place && value == element ? 0 : 1;
        from += input_record_bytes(1);
      }
      CHECK(num_wrong == 0);
    }
  }
}

TEST_CASE("a record whose index leaves the matrix after it was counted is a changed file") {
  const BlockMatrix matrix = test::random_matrix(64, 8, 20, 300, 1);
  const ChangingSource source(matrix);
  const test::TemporaryFolder folder;
  const std::vector<std::string> folders = {folder.path().string()};
  std::string why;
  const io::ScratchFile file = io::ScratchFile::make(folders, 1u << 20, why);
  if (!file.is_open()) return;  // the folder is in memory
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .cancel = nullptr, .num_threads = 1};
  CHECK_THROWS_AS(slabs::SortedMatrix(source, file, {.memory_bytes = 1u << 20}, run), FormatError);
}

TEST_CASE("without a folder on a disk the slabs are read from the operands, and the plan says why") {
  const std::string shared = "/dev/shm";
  if (!std::filesystem::is_directory(shared)) return;
  const SortedOperands operands(test::random_matrix(8 * 8192, 8, 30'000, 65535, 1),
                                test::random_matrix(8 * 8192, 8, 30'000, 65535, 2));
  const char* const set = std::getenv("TMPDIR");
  const std::string before = set == nullptr ? "" : set;
  setenv("TMPDIR", shared.c_str(), 1);
  const Report none = multiply(operands.file("a"), operands.file("b"), "/dev/null", within(2'400'000));
  setenv("TMPDIR", "/nowhere", 1);
  const Report nowhere = multiply(operands.file("a"), operands.file("b"), "/dev/null", within(2'400'000));
  const Report beside = operands.check(within(2'400'000));  // in the output's folder
  set == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
  CHECK(none.plan.scratch_bytes == 0);
  CHECK(none.plan.why_no_scratch.find("/dev/shm: is in memory") != std::string::npos);
  CHECK(nowhere.plan.why_no_scratch.find("/nowhere: No such file") != std::string::npos);
  CHECK(beside.plan.scratch_bytes == 2 * 30'000 * input_record_bytes(8));
  CHECK(beside.plan.why_no_scratch.empty());
  CHECK(none.c_blocks == beside.c_blocks);
}

TEST_CASE("a scratch file that is longer than files may be is not made, and no signal comes") {
  const test::TemporaryFolder folder;
  const std::vector<std::string> folders = {folder.path().string()};
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit less = before;
  less.rlim_cur = 1u << 20;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &less) == 0);
  std::string why;
  const io::ScratchFile file = io::ScratchFile::make(folders, 1u << 21, why);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK_FALSE(file.is_open());
  CHECK((why.ends_with("File too large") || why.ends_with("is in memory")));
}
