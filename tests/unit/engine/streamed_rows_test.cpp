// Rows of A that are multiplied while B is read past them: sides, instruction sets, windows of columns, memory.
#include "engine/slabs/streamed_rows.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/records/head.hpp"
#include "plan/decide.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/matrix_builder.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"
#include "support/process.hpp"
#include "unit/cpu/run_cpu.hpp"
#include "unit/plan/plan_support.hpp"

namespace spmm::test {
namespace {

/// Two matrices in a scratch file, sorted by rows, and all rows of A.
class Streamed {
 public:
  Streamed(const BlockMatrix& a, const BlockMatrix& b, std::uint32_t num_groups)
      : source_a_(make_memory_source(a, "A")),
        source_b_(make_memory_source(b, "B")),
        folders_{folder_.path().string()},
        file_(io::ScratchFile::make(folders_, 1u << 24, why_)) {
    if (!file_.is_open()) return;  // the folder is in memory
    a_.emplace(*source_a_, file_, slabs::Sorting{.memory_bytes = 1u << 22}, run_);
    b_.emplace(*source_b_, file_, slabs::Sorting{.file_offset = 1u << 23, .memory_bytes = 1u << 22}, run_);
    groups_.emplace(slabs::all_records(*b_), num_groups, 1u << 16, run_);
    std::vector<std::byte> raw(a.index.size() * input_record_bytes(a.m));
    a_->read(0, a.index.size(), raw.data());
    for (std::uint32_t x = 0; x < a.index.size(); ++x) {
      const BlockIndex at = read_index(raw.data() + x * input_record_bytes(a.m));
      if (x == 0 || at.i != last_row_) rows_.push_back({.records = {.begin = x, .end = x}});
      last_row_ = at.i;
      rows_.back().records.end = x + 1;
      rows_.back().pairs += groups_->num_records(at.j);
    }
  }

  [[nodiscard]] bool is_ready() const { return file_.is_open(); }

  [[nodiscard]] ProductMatrix multiply(const plan::StreamedRowsPlan& plan, ProductStats& stats) const {
    MemorySink sink(source_a_->header());
    stats = slabs::multiply_streamed_rows({.a = *a_, .b = *b_, .groups = *groups_}, rows_, plan, sink, run_);
    sink.finish(source_a_->header());
    return sink.product();
  }

 private:
  std::unique_ptr<Source> source_a_;
  std::unique_ptr<Source> source_b_;
  TemporaryFolder folder_;
  std::vector<std::string> folders_;
  std::string why_;
  io::ScratchFile file_;
  StageClock clock_;
  Run run_{.clock = clock_, .on_progress = kNoProgress, .cancel = nullptr, .num_threads = 3};
  std::optional<slabs::SortedMatrix> a_;
  std::optional<slabs::SortedMatrix> b_;
  std::optional<slabs::RowGroups> groups_;
  std::vector<slabs::StreamedRow> rows_;
  std::uint32_t last_row_ = 0;
};

}  // namespace

TEST_CASE("streamed rows are the oracle's, for every side, window and instruction set") {
  for (const std::uint32_t m : {1u, 3u, 8u, 17u}) {
    const std::uint32_t side = m > 16 ? 5 : 24;
    const std::uint32_t blocks = side * side / 3;
    for (const std::uint32_t max_value : {300u, kFullRange}) {
      const BlockMatrix a = random_matrix(side * m, m, blocks, max_value, 1);
      const BlockMatrix b = random_matrix(side * m, m, blocks, max_value, 2);
      const ProductMatrix expected = oracle_multiply(a, b);
      for (const std::string& isa : available_isas()) {
        const ForcedIsa forced(isa);
        for (const std::uint32_t num_groups : {4u, side}) {
          const Streamed streamed(a, b, num_groups);
          if (!streamed.is_ready()) return;
          for (const std::uint32_t window : {1u, side}) {
            INFO("m " << m << ", to " << max_value << ", " << isa << ", " << num_groups << " groups, window "
                      << window);
            const plan::StreamedRowsPlan plan{.num_threads = 1 + window % 3,
                                              .piece_bytes = window * input_record_bytes(m),
                                              .buffer_bytes = window * output_record_bytes(m),
                                              .window_columns = window,
                                              .has_many_windows = window == 1};
            ProductStats stats;
            CHECK((streamed.multiply(plan, stats) == expected));
            CHECK(stats.num_blocks == expected.index.size());
          }
        }
      }
    }
  }
}

TEST_CASE("streamed rows count pairs, and elements at the limit") {
  MatrixBuilder a(70, 2, 1);
  MatrixBuilder b(70, 2, 2);
  for (std::uint32_t x = 0; x < 70; ++x) {
    a.add_constant(3, x, kFullRange);
    b.add_constant(x, 69, kFullRange);  // 140 products of almost 2^32
  }
  a.add_constant(5, 0, 1);
  const Streamed streamed(a.matrix(), b.matrix(), 70);
  if (!streamed.is_ready()) return;
  ProductStats stats;
  const ProductMatrix product = streamed.multiply(
      {.num_threads = 2, .piece_bytes = 64, .buffer_bytes = output_record_bytes(2), .window_columns = 70}, stats);
  CHECK(product == oracle_multiply(a.matrix(), b.matrix()));
  CHECK(stats.pairs == 71);
  CHECK(stats.num_saturated == 4);
}

TEST_CASE("what streamed rows keep stays within their limit, and one row is shared by all threads") {
  for (const std::uint32_t m : {1u, 4u, 8u, 64u}) {
    const MatrixHeader header{.n = m * 50'000, .m = m, .num_blocks = 1'000'000};
    for (std::uint64_t limit = 1u << 28; limit > 1u << 18; limit /= 2) {
      const plan::StreamedRowsLimits limits{
          .isa = plan::Isa::avx2, .host_bytes = limit, .piece_bytes = 16u << 10, .num_threads = 8};
      if (plan::least_streamed_bytes(header, limits) > limit) continue;
      INFO("m " << m << ", limit " << limit);
      const plan::StreamedRowsPlan plan = plan::plan_streamed_rows(header, limits, 100);
      const std::uint64_t sums = plan.window_columns * std::uint64_t{m} * m * 4 + (plan.window_columns / 64 + 1) * 8;
      const std::uint64_t pieces = 2 * std::max<std::uint64_t>(plan.piece_bytes, input_record_bytes(m));
      const std::uint64_t products = plan::block_products_bytes(plan::packed_shape(limits.isa, m));
      CHECK(plan.num_threads * (sums + pieces + products + 2 * plan.buffer_bytes) <= limit);
      CHECK(plan.window_columns <= 50'000);
      const plan::StreamedRowsPlan of_one = plan::plan_streamed_rows(header, limits, 1);
      CHECK(of_one.window_columns <= (50'000 + of_one.num_threads - 1) / of_one.num_threads);
    }
  }
}

TEST_CASE("many threads that share a row do not make many windows of it, little memory does") {
  const MatrixHeader header{.n = 50'000, .m = 1, .num_blocks = 1'000'000};
  plan::StreamedRowsLimits limits{
      .isa = plan::Isa::avx2, .host_bytes = 1u << 28, .piece_bytes = 4096, .num_threads = 64};
  const plan::StreamedRowsPlan shared = plan::plan_streamed_rows(header, limits, 1);
  CHECK(shared.num_threads == 64);
  CHECK(shared.window_columns == (50'000 + 63) / 64);
  CHECK_FALSE(shared.has_many_windows);
  limits.host_bytes = 8 << 10;
  CHECK(plan::plan_streamed_rows(header, limits, 1).has_many_windows);
}

TEST_CASE("where hardly a row fits all are streamed, down to a C block for one thread") {
  plan::Limits limits = large_machine();
  limits.backend = Backend::cpu;
  limits.num_threads = limits.num_cores = 2;
  limits.has_scratch = true;
  const plan::Statistics s = evenly_spread(49'152, 3, 100'000);
  limits.host_bytes = 1'000'000;
  const plan::Execution e = plan::decide(s, limits);
  REQUIRE_FALSE(e.is_refused());
  CHECK(e.kernel == "row-merge");
  CHECK(e.streams_all_rows());
  CHECK(e.predicted_s < 1);
  limits.host_bytes = 1000;
  const plan::Execution refused = plan::decide(s, limits);
  REQUIRE(refused.is_refused());
  CHECK(refused.refusal.need_bytes < 200'000);
  limits.host_bytes = refused.refusal.need_bytes;
  UNSCOPED_INFO(limits.host_bytes << " bytes, needs " << plan::decide(s, limits).refusal.need_bytes);
  CHECK_FALSE(plan::decide(s, limits).is_refused());
}

}  // namespace spmm::test
