// Bad operands, cancellation, sources and sinks that fail: the right error, no hang.
#include <stdexcept>

#include "base/records/errors.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/wrapped_calls.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

TEST_CASE("cpu: more result blocks than a file holds are refused") {
  const BlockMatrix a = random_matrix(40 * 4, 4, 300, 9, 1);
  const ProductMatrix product = run_cpu(a, a);
  struct Restore {
    ~Restore() { most_output_blocks = kMostOutputBlocks; }
  } const restore;
  for (const std::string& kernel : available_kernels()) {
    most_output_blocks = product.index.size();
    CHECK((run_cpu(a, a, {.kernel = kernel, .panel_bytes = 2000}) == product));
    most_output_blocks = product.index.size() - 1;
    CHECK_THROWS_AS(run_cpu(a, a, {.kernel = kernel, .panel_bytes = 2000}), OutOfMemory);
  }
}

TEST_CASE("cpu: an unknown kernel or instruction set is refused") {
  const auto a = random_matrix(8, 4, 2, 9, 1);
  const MemorySource source(a);
  MemorySink sink(a.header());
  Output output(sink);
  StageClock clock;
  const ProgressFn silent;
  const Run run{.clock = clock, .on_progress = silent};
  plan::Choice other = make_execution({.kernel = "two-pointer"}, plan::expected_counts(a.header(), a.header()));
  CHECK_THROWS_AS(cpu::multiply(source, source, output, other, run), std::logic_error);  // never another one instead
  Options options;
  options.backend = Backend::cpu;
  for (const std::string kernel : {"two-pointer", "no-such-kernel", ""}) {
    options.kernel = kernel;
    CHECK_THROWS_AS(multiply(a, a, options), UsageError);
  }
  const ForcedIsa forced("sse9");
  CHECK_THROWS_AS(run_cpu(a, a), UsageError);
}

TEST_CASE("cpu: cancellation also while the sink holds all buffers") {
  const auto a = random_matrix(100 * 4, 4, 2000, 9, 1);
  std::atomic<bool> cancel = false;
  MemorySink sink(a.header(), 1000);
  sink.on_write = [&] { cancel = true; };
  CHECK_THROWS_AS(
      run_streams(MemorySource(a), MemorySource(a), sink, {.panel_bytes = 2000, .num_buffers = 3}, {}, &cancel),
      Interrupted);
  // The buffers that the sink still holds are still there.
  sink.finish({});
  CHECK(!sink.product().index.empty());
}

TEST_CASE("cpu: a source that throws ends the run") {
  const auto a = random_matrix(50 * 4, 4, 500, 9, 1);
  for (const std::string& kernel : available_kernels()) {
    MemorySource bad(a);
    bad.on_read = [] { throw IoError("left.bin", "read failed", "try again"); };
    MemorySink sink(a.header());
    CHECK_THROWS_AS(run_streams(MemorySource(a), bad, sink, {.kernel = kernel}), IoError);
    CHECK_THROWS_AS(run_streams(bad, MemorySource(a), sink, {.kernel = kernel}), IoError);
  }
}

TEST_CASE("cpu: a sink that throws ends the run, whichever buffer it is") {
  const auto a = random_matrix(100 * 4, 4, 2000, 9, 1);
  for (const std::string& kernel : available_kernels()) {
    for (const unsigned num_threads : {1u, 2u, 5u}) {
      for (const int fails_at : {1, 2, 9}) {
        int count = 0;
        MemorySink sink(a.header(), 1);
        sink.on_write = [&] {
          if (++count == fails_at) throw IoError("out.bin", "no space left on device", "free some");
        };
        const Settings settings{.kernel = kernel, .num_threads = num_threads, .panel_bytes = 2000, .num_buffers = 4};
        CHECK_THROWS_AS(run_streams(MemorySource(a), MemorySource(a), sink, settings), IoError);
        CHECK(count == fails_at);
      }
    }
  }
}

}  // namespace
}  // namespace spmm::test
