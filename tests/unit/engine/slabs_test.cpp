// Products out of core give the bytes of a product at once.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "cpu/backend.hpp"
#include "engine/slabs/cut.hpp"
#include "engine/slabs/out_of_core.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"
#include "support/wrapped_calls.hpp"

namespace {

using namespace spmm;
using spmm::test::kMostOutputBlocks;
using spmm::test::most_output_blocks;

/// What a pretended decision allows.
struct Allowed {
  std::uint64_t a_blocks = 0;  ///< of A that fit at a time
  std::uint64_t b_blocks = 0;
  std::uint64_t kept_bytes = 1u << 30;
};

struct Outcome {
  ProductMatrix product;
  plan::Execution execution;
  ProductStats stats;
};

/// The first number of slabs whose largest has so few blocks; 0 where none does.
std::uint32_t slabs_for(const MatrixHeader& header, const std::vector<std::uint64_t>& counted, std::uint64_t most) {
  for (std::size_t x = 0; x < plan::kSlabCounts.size(); ++x) {
    const std::uint32_t count = plan::kSlabCounts.at(x);
    const std::uint64_t largest = counted.empty() ? (header.num_blocks + count - 1) / count : counted.at(x);
    if (largest <= most) return count;
  }
  return 0;
}

plan::Execution decide_within(const plan::Statistics& s, const Allowed& allowed) {
  plan::Execution e;
  e.backend = Backend::cpu;
  e.kernel = "row-merge";
  e.id = plan::KernelId::row_merge;
  e.num_threads = 2;
  e.panel_bytes = std::max<std::uint64_t>(1, 4096 / output_record_bytes(s.m())) * output_record_bytes(s.m());
  e.num_buffers = 3;
  if (s.exact) return e;
  e.num_a_slabs = slabs_for(s.a, s.a_slab_blocks, allowed.a_blocks);
  e.num_b_slabs = slabs_for(s.b, s.b_slab_blocks, allowed.b_blocks);
  e.kept_bytes = allowed.kept_bytes;
  if (e.num_a_slabs == 0 || e.num_b_slabs == 0) e.refusal = plan::host_memory_refusal(0);
  return e;
}

/// multiply_out_of_core() from the first decision on.
ProductStats multiply_decided(const Inputs& inputs, Sink& sink, const plan::Decide& decide,
                              const MultiplyAtOnce& at_once, const Run& run, plan::Execution& execution) {
  execution = decide(expected_statistics(inputs));
  plan::throw_if_refused(execution);
  return multiply_out_of_core(inputs, sink, decide, at_once, run, execution);
}

/// Counts what is read of it: a matrix in memory, or one that is said to lie in a file.
class CountedSource : public test::MemorySource {
 public:
  CountedSource(const BlockMatrix& matrix, bool is_in_memory) : MemorySource(matrix), is_in_memory_(is_in_memory) {}
  [[nodiscard]] bool is_in_memory() const override { return is_in_memory_; }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    num_read += count;
    MemorySource::read(first, count, dst);
  }
  mutable std::atomic<std::uint64_t> num_read{0};

 private:
  bool is_in_memory_;
};

/// Records read of both operands, for each record of them, in addition to those of the slabs that were multiplied.
double passes_beside_slabs(const BlockMatrix& a, const BlockMatrix& b, const Allowed& allowed, bool in_memory) {
  const CountedSource source_a(a, in_memory);
  const CountedSource source_b(b, in_memory);
  test::MemorySink sink(a.header());
  StageClock clock;
  const Run run{.clock = clock, .on_progress = test::kNoProgress, .cancel = nullptr, .num_threads = 2};
  const auto decide = [&](const plan::Statistics& s) { return decide_within(s, allowed); };
  std::uint64_t of_slabs = 0;
  const auto at_once = [&](const Inputs& one, Sink& to, plan::Execution& execution) {
    of_slabs += std::uint64_t{one.a.header().num_blocks} + one.b.header().num_blocks;
    return cpu::multiply(one.a, one.b, to, execution, decide, run);
  };
  plan::Execution execution;
  multiply_decided({source_a, source_b}, sink, decide, at_once, run, execution);
  sink.finish(a.header());
  CHECK(sink.product() == test::oracle_multiply(a, b));
  CHECK(execution.num_a_slabs >= 8);
  const double stored = static_cast<double>(a.index.size() + b.index.size());
  return static_cast<double>(source_a.num_read + source_b.num_read - of_slabs) / stored;
}

/// Without finish(): all of the outcome but the product.
Outcome multiply_into(const BlockMatrix& a, const BlockMatrix& b, const Allowed& allowed, Sink& sink) {
  const auto source_a = make_memory_source(a, "matrix A");
  const auto source_b = make_memory_source(b, "matrix B");
  Outcome out;
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .cancel = nullptr, .num_threads = 2};
  const auto decide = [&](const plan::Statistics& s) { return decide_within(s, allowed); };
  const auto at_once = [&](const Inputs& one, Sink& to, plan::Execution& execution) {
    return cpu::multiply(one.a, one.b, to, execution, decide, run);
  };
  out.stats = multiply_decided({*source_a, *source_b}, sink, decide, at_once, run, out.execution);
  return out;
}

Outcome multiply_within(const BlockMatrix& a, const BlockMatrix& b, const Allowed& allowed) {
  ProductMatrix product;
  const auto sink = make_memory_sink(product);
  Outcome out = multiply_into(a, b, allowed, *sink);
  sink->finish({.n = a.n, .m = a.m, .num_blocks = static_cast<std::uint32_t>(out.stats.num_blocks)});
  sink->publish();
  out.product = std::move(product);
  return out;
}

/// What a matrix times itself out of core keeps of lists while its first slab of B is multiplied.
struct ListBytes {
  plan::Execution execution;
  unsigned num_slabs = 0;  ///< of A
  std::uint64_t most = 0;
};

ListBytes list_bytes(const BlockMatrix& matrix, const Allowed& allowed) {
  const auto source = make_memory_source(matrix, "matrix");
  ProductMatrix product;
  const auto sink = make_memory_sink(product);
  StageClock clock;
  const Run run{.clock = clock, .on_progress = test::kNoProgress, .cancel = nullptr, .num_threads = 2};
  const auto decide = [&](const plan::Statistics& s) { return decide_within(s, allowed); };
  const std::uint64_t counts = 2 * plan::kNumBuckets * sizeof(std::uint64_t);  // not in arrays
  const std::uint64_t before = array_bytes();
  const Source* first_b = nullptr;
  ListBytes lists;
  const auto at_once = [&](const Inputs& one, Sink& to, plan::Execution& execution) {
    if (first_b == nullptr || lists.execution.num_b_slabs == 1) first_b = &one.b;
    if (first_b == &one.b) {  // nothing is kept yet
      ++lists.num_slabs;
      lists.most = std::max(lists.most, array_bytes() - before + counts);
    }
    return cpu::multiply(one.a, one.b, to, execution, decide, run);
  };
  multiply_decided({*source, *source}, *sink, decide, at_once, run, lists.execution);
  return lists;
}

}  // namespace

TEST_CASE("the division that is needed is used, and counts add up") {
  const BlockMatrix a = test::random_matrix(4 * 200, 4, 3000, 65535, 1);
  const BlockMatrix b = test::random_matrix(4 * 200, 4, 3000, 65535, 2);
  const Outcome whole = multiply_within(a, b, {.a_blocks = 3000, .b_blocks = 3000});
  CHECK(whole.execution.num_a_slabs == 1);
  CHECK(whole.execution.num_b_slabs == 1);
  const Outcome rows = multiply_within(a, b, {.a_blocks = 1100, .b_blocks = 3000});
  CHECK(rows.execution.num_a_slabs >= 3);
  CHECK(rows.execution.num_b_slabs == 1);
  const Outcome both = multiply_within(a, b, {.a_blocks = 1100, .b_blocks = 800});
  CHECK(both.execution.num_a_slabs >= 3);
  CHECK(both.execution.num_b_slabs >= 4);
  for (const Outcome* out : {&rows, &both}) {
    CHECK((out->product == whole.product));
    CHECK(out->stats.pairs == whole.stats.pairs);
    CHECK(out->stats.num_blocks == whole.stats.num_blocks);
  }
}

TEST_CASE("slabs of operands in memory read their own records alone") {
  const BlockMatrix a = test::random_matrix(4 * 400, 4, 4000, 65535, 1);
  const BlockMatrix b = test::random_matrix(4 * 400, 4, 4000, 65535, 2);
  for (const Allowed& allowed :
       {Allowed{.a_blocks = 550, .b_blocks = 4000}, Allowed{.a_blocks = 550, .b_blocks = 900}}) {
    // The indices of A are read once, those of B twice: for the sizes of slabs, and for their records.
    const double in_memory = passes_beside_slabs(a, b, allowed, true);
    const double in_files = passes_beside_slabs(a, b, allowed, false);
    INFO(in_memory << " and " << in_files);
    CHECK(in_memory <= 1.6);
    CHECK(in_files > 4 * in_memory);
  }
}

TEST_CASE("a slab whose result is too large is divided further") {
  const BlockMatrix a = test::random_matrix(8 * 100, 8, 2000, 2047, 1);
  const BlockMatrix b = test::random_matrix(8 * 100, 8, 2000, 2047, 2);
  const ProductMatrix expected = test::oracle_multiply(a, b);
  const std::uint64_t result_bytes = expected.index.size() * output_record_bytes(8);
  const Outcome out = multiply_within(a, b, {.a_blocks = 2000, .b_blocks = 1100, .kept_bytes = result_bytes / 10});
  CHECK(out.execution.num_a_slabs == 1);
  CHECK(out.execution.num_b_slabs >= 2);
  CHECK((out.product == expected));
  CHECK_THROWS_AS(multiply_within(a, b, {.a_blocks = 2000, .b_blocks = 1100, .kept_bytes = 300}), OutOfMemory);
}

TEST_CASE("lists of slabs take no more than is planned, however often a slab is divided") {
  const BlockMatrix matrix = test::random_matrix(8 * 100, 8, 2000, 2047, 1);
  const ListBytes lists =
      list_bytes(matrix, {.a_blocks = 2000, .b_blocks = 1100, .kept_bytes = 100 * output_record_bytes(8)});
  CHECK(lists.execution.num_a_slabs == 1);
  CHECK(lists.num_slabs > 10);
  CHECK(lists.most <= plan::slab_list_bytes(matrix.header(), matrix.header()));
}

TEST_CASE("lists of needed rows take no more than is planned") {
  const BlockMatrix matrix = test::random_matrix(8 * 100, 8, 2000, 2047, 1);
  const ListBytes lists = list_bytes(matrix, {.a_blocks = 200, .b_blocks = 2000});
  CHECK(lists.execution.num_b_slabs == 1);
  CHECK(lists.num_slabs >= 10);
  CHECK(lists.most <= plan::needed_list_bytes(matrix.header(), matrix.header()));
}

TEST_CASE("a division that the exact sizes of slabs forbid is refused, and nothing runs") {
  // Every block of A lies in one block row: slabs of equal size, which headers make one expect, do not exist.
  BlockMatrix a = test::random_matrix(4 * 200, 4, 150, 9, 1);
  for (std::uint32_t x = 0; x < 150; ++x) a.index[x] = {.i = 7, .j = x};
  const auto source = make_memory_source(a, "matrix");
  ProductMatrix product;
  const auto sink = make_memory_sink(product);
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .cancel = nullptr, .num_threads = 2};
  unsigned runs = 0;
  const auto decide = [&](const plan::Statistics& s) { return decide_within(s, {.a_blocks = 100, .b_blocks = 150}); };
  const auto at_once = [&](const Inputs&, Sink&, plan::Execution&) {
    ++runs;
    return ProductStats{};
  };
  plan::Execution execution;
  CHECK_THROWS_AS(multiply_decided({*source, *source}, *sink, decide, at_once, run, execution), OutOfMemory);
  CHECK(runs == 0);
}

TEST_CASE("what fits in no division is refused") {
  const BlockMatrix a = test::random_matrix(4 * 50, 4, 500, 9, 1);
  CHECK_THROWS_AS(multiply_within(a, a, {.a_blocks = 0, .b_blocks = 0}), OutOfMemory);
}

TEST_CASE("slabs hold every block, none is empty unless there are no blocks at all") {
  std::vector<std::uint64_t> counts(slabs::kNumBuckets, 0);
  counts[5] = 10;
  counts[6] = 1;
  counts[60'000] = 3;
  for (const std::uint32_t num_slabs : {1u, 2u, 3u, 64u}) {
    const std::vector<slabs::Slab> cut = slabs::cut_slabs(counts, 0, slabs::kNumBuckets, num_slabs);
    CHECK(cut.size() == std::min(num_slabs, 3u));
    std::uint64_t sum = 0;
    for (const slabs::Slab& slab : cut) {
      CHECK(slab.num_blocks > 0);
      sum += slab.num_blocks;
    }
    CHECK(sum == 14);
  }
  const std::vector<slabs::Slab> empty = slabs::cut_slabs(counts, 100, 1000, 4);
  REQUIRE(empty.size() == 1);
  CHECK(empty[0].num_blocks == 0);
}

TEST_CASE("slabs: what does not divide evenly goes to the first ones") {
  const std::vector<std::uint64_t> counts(7, 1);
  std::vector<std::uint64_t> sizes;
  for (const slabs::Slab& slab : slabs::cut_slabs(counts, 0, 7, 3)) sizes.push_back(slab.num_blocks);
  CHECK(sizes == std::vector<std::uint64_t>{3, 2, 2});
}

TEST_CASE("too many result blocks: one error at every limit") {
  const BlockMatrix a = test::random_matrix(4 * 60, 4, 700, 9, 1);
  const Outcome whole = multiply_within(a, a, {.a_blocks = 700, .b_blocks = 700});
  const auto message = [&](std::uint64_t fit) -> std::string {
    try {
      test::MemorySink sink(a.header());  // counts no blocks itself
      multiply_into(a, a, {.a_blocks = fit, .b_blocks = fit}, sink);
    } catch (const OutOfMemory& error) {
      return error.what();
    }
    return "accepted";
  };
  struct Restore {
    ~Restore() { most_output_blocks = kMostOutputBlocks; }
  } const restore;
  most_output_blocks = whole.stats.num_blocks;
  CHECK(message(700) == "accepted");
  CHECK(message(200) == "accepted");
  most_output_blocks = whole.stats.num_blocks - 1;
  CHECK(message(700).find("more than " + std::to_string(whole.stats.num_blocks - 1) + " non-zero blocks") !=
        std::string::npos);
  CHECK(message(200) == message(700));
  CHECK(message(50) == message(700));
}
