// Threads and buffers of the CPU kernels under memory limits, and what they need.
#include <algorithm>
#include <cstdint>

#include "cpu/simd/layout.hpp"
#include "plan/decide.hpp"
#include "plan/registry.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using plan::KernelId;

plan::Limits cpu_limits(unsigned num_threads, std::uint64_t host_bytes, KernelId kernel = KernelId::row_merge) {
  plan::Limits limits = large_machine();
  limits.backend = Backend::cpu;
  limits.kernel = kernel;
  limits.num_threads = num_threads;
  limits.host_bytes = host_bytes;
  return limits;
}

}  // namespace

TEST_CASE("threads are given up before buffers become tiny") {
  const plan::Statistics s = evenly_spread(8192, 4, 60'000);
  for (const unsigned cores : {2u, 16u}) {
    plan::Limits limits = cpu_limits(16, 36'000'000);
    limits.num_cores = cores;
    const plan::Execution e = plan::decide(s, limits);
    CHECK_FALSE(e.is_out_of_core());
    CHECK(e.num_threads < 16);
    CHECK(e.panel_bytes >= 250u << 10);
  }
  // They grow back while they fit; what was asked for is used where memory is ample.
  unsigned last = 0;
  for (const std::uint64_t mb : {36u, 60u, 100u, 400u, 4000u}) {
    const plan::Execution e = plan::decide(s, cpu_limits(16, mb * 1'000'000));
    CHECK(e.num_threads >= last);
    last = e.num_threads;
  }
  CHECK(last == 16);
}

TEST_CASE("small results get small buffers") {
  const auto buffer_bytes = [](std::uint32_t num_blocks) {
    const MatrixHeader header{.n = 1024, .m = 8, .num_blocks = num_blocks};
    return plan::decide(plan::expected_statistics(header, header), cpu_limits(1, 4'000'000'000)).panel_bytes;
  };
  constexpr std::uint64_t kRecord = 264;
  CHECK(buffer_bytes(1000) == (256u << 10) / kRecord * kRecord);
  CHECK(buffer_bytes(16'384) == 128 * 128 * kRecord / 8);
}

TEST_CASE("what exactly fits is taken, one byte less is not") {
  const plan::Statistics s = evenly_spread(8192, 8, 100'000);
  for (const KernelId kernel : {KernelId::row_merge, KernelId::reference}) {
    INFO(plan::row_of(kernel).name);
    const plan::Execution roomy = plan::decide(s, cpu_limits(4, std::uint64_t{8} << 30, kernel));
    plan::Execution exact_fit = plan::decide(s, cpu_limits(4, roomy.host_need_bytes, kernel));
    CHECK(exact_fit.panel_bytes == roomy.panel_bytes);
    CHECK(exact_fit.num_buffers == roomy.num_buffers);
    CHECK(exact_fit.num_threads == roomy.num_threads);
    const plan::Execution less = plan::decide(s, cpu_limits(4, roomy.host_need_bytes - 1, kernel));
    CHECK(less.host_need_bytes < roomy.host_need_bytes);
    // The least that a refusal asks for is enough.
    const plan::Execution refused = plan::decide(s, cpu_limits(4, 1000, kernel));
    REQUIRE(refused.is_refused());
    CHECK_FALSE(plan::decide(s, cpu_limits(4, refused.refusal.need_bytes, kernel)).is_refused());
    CHECK(plan::decide(s, cpu_limits(4, refused.refusal.need_bytes - 4, kernel)).is_refused());  // out of core
    const std::uint64_t at_once = plan::decide_at_once(s, cpu_limits(4, 1000, kernel)).refusal.need_bytes;
    CHECK_FALSE(plan::decide_at_once(s, cpu_limits(4, at_once, kernel)).is_refused());
    CHECK(plan::decide_at_once(s, cpu_limits(4, at_once - 1, kernel)).is_refused());
  }
}

TEST_CASE("a refusal says need and have") {
  const plan::Statistics s = evenly_spread(8192, 8, 100'000);
  plan::Limits limits = large_machine();
  const auto message = [&]() -> std::string {
    const plan::Execution e = plan::decide(s, limits);
    try {
      plan::throw_if_refused(e);
    } catch (const std::exception& error) {
      CHECK(std::string(error.what()).find(std::to_string(e.refusal.need_bytes) + " bytes") != std::string::npos);
      return error.what();
    }
    return "accepted";
  };
  for (const bool on_device : {true, false}) {
    limits = large_machine();
    (on_device ? limits.gpus[0].bytes : limits.host_bytes) = 1000;
    const std::string text = message();
    INFO(text);
    CHECK(text.find(on_device ? "device memory" : "host memory") != std::string::npos);
    CHECK(text.find("1000 bytes") != std::string::npos);
    CHECK(text.find("EngineOptions::memory_limit_bytes") != std::string::npos);
  }
}

TEST_CASE("words of records: a position without the upper bits of its row, and a number or an element") {
  const auto word_bytes = [](std::uint32_t nb, std::uint32_t m, std::uint32_t num_blocks) {
    return cpu::key_bits({.n = nb * m, .m = m, .num_blocks = num_blocks}).word_bytes();
  };
  CHECK(word_bytes(1, 1, 1) == 8);
  CHECK(word_bytes(1u << 29, 1, 0xFFFF'FFFFu) == 8);  // 58 - 11 + 16
  CHECK(word_bytes(1u << 28, 1, 1000) == 8);          // 56 - 9 + 16
  CHECK(word_bytes((1u << 29) + 1, 1, 1000) == 16);
  CHECK(word_bytes(1u << 30, 2, 1u << 13) == 8);  // 60 - 9 + 13
  CHECK(word_bytes(1u << 30, 2, (1u << 13) + 1) == 16);
  CHECK(word_bytes(1u << 21, 8, 0xFFFF'FFFFu) == 8);  // 42 - 11 + 32
}

TEST_CASE("building an operand takes words, their sort scratch and the packed blocks") {
  const MatrixHeader header{.n = 1000, .m = 1, .num_blocks = 100'000};
  const cpu::PackedShape plain = cpu::packed_shape(plan::Isa::portable, 1);
  // 2 bytes of value and 4 of column a block; 1,000 rows with number and start.
  CHECK(cpu::operand_sizes(header, cpu::Side::a, plain).bytes() == 100'000 * 6 + 8004);
  CHECK(cpu::build_bytes(header, cpu::Side::a, plain) == 100'000 * (16 + 6) + 8004);
  const MatrixHeader largest{.n = 1u << 20, .m = 1, .num_blocks = 0xFFFF'FFFFu};  // words alone are 64 GB
  CHECK(cpu::build_bytes(largest, cpu::Side::a, plain) > 0xFFFF'FFFFull * 22);
  const MatrixHeader wide_index{.n = 0xFFFF'FFFFu, .m = 1, .num_blocks = 1000};  // words of 16 bytes
  CHECK(cpu::build_bytes(wide_index, cpu::Side::a, plain) == 1000 * (32 + 6 + 8) + 4);
  const cpu::PackedShape wide = cpu::packed_shape(plan::Isa::avx2, 8);
  const MatrixHeader large{.n = 8000, .m = 8, .num_blocks = 100'000};
  CHECK(cpu::operand_sizes(large, cpu::Side::b, wide).bytes() == 100'000 * (128 + 4) + 8004);
  CHECK(cpu::build_bytes(large, cpu::Side::b, wide) == 100'000 * (16 + 132) + 8004);
}

TEST_CASE("predicted memory covers operands, buffers and workers and has no part in n squared") {
  const MatrixHeader header{.n = 1u << 20, .m = 8, .num_blocks = 1'000'000};
  for (const plan::KernelRow& row : plan::registry()) {
    if (row.host_bytes == nullptr) continue;
    INFO(row.name);
    const plan::HostBytes need = row.host_bytes(header, header, plan::Isa::avx512_vnni, plan::kAnySpan);
    CHECK(need.total(2, 6, 1u << 20) > 2 * 1'000'000 * input_record_bytes(8));
    CHECK(need.total(2, 6, 1u << 20) < 1'000'000'000);
    CHECK(need.total(2, 100, 1u << 20) >= need.total(2, 6, 1u << 20));
    CHECK(need.total(2, 100, 1u << 30) >= 100ull << 30);
  }
  const MatrixHeader huge{.n = 0xFFFF'FFFFu, .m = 1, .num_blocks = 0xFFFF'FFFFu};
  CHECK(plan::row_merge_bytes(huge, huge, plan::Isa::portable).total(2, 4, 1u << 16) > 0xFFFF'FFFFull * 2 * 8);
}
