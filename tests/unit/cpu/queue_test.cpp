// How much of a buffer a range should fill.
#include <cstdint>
#include <vector>

#include "cpu/output/queue.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {

TEST_CASE("cpu: ranges fill whole buffers only where buffers are short") {
  constexpr std::uint64_t kRecordBytes = 1u << 10;
  constexpr std::uint64_t kBufferBytes = 4u << 20;
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .num_threads = 1};
  MemorySink sink({.n = 1, .m = 1});
  cpu::OutputQueue queue(sink, 6, kBufferBytes, kRecordBytes, run);
  std::vector<cpu::RecordWriter> writers(4, cpu::RecordWriter(queue));
  std::vector<std::uint64_t> useful;
  for (cpu::RecordWriter& out : writers) {
    CHECK(out.start([&] {
      useful.push_back(queue.useful_bytes());
      return true;
    }));
  }
  CHECK((useful == std::vector<std::uint64_t>{1u << 20, 1u << 20, 1u << 20, 1u << 20}));
  CHECK(cpu::RecordWriter(queue).start([&] { return queue.useful_bytes() == kBufferBytes; }));  // two of six are free
  cpu::OutputQueue small(sink, 6, 1u << 16, kRecordBytes, run);
  CHECK(cpu::RecordWriter(small).start([&] { return small.useful_bytes() == 1u << 16; }));
}

}  // namespace spmm::test
