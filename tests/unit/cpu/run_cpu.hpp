// Runs the CPU backend on matrices in memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/run/run.hpp"
#include "cpu/backend.hpp"
#include "cpu/reference.hpp"
#include "cpu/rows/row_merge.hpp"
#include "cpu/simd/kernels.hpp"
#include "cpu/simd/layout.hpp"
#include "plan/registry.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"

namespace spmm::test {

/// Forces an instruction set while it lives.
struct ForcedIsa : Variable {
  explicit ForcedIsa(const std::string& name) : Variable("SPMM_CPU_ISA", name) {}
};

inline std::vector<std::string> available_isas() {
  std::vector<std::string> names = {"portable"};
  if (cpu::avx2_available()) names.emplace_back("avx2");
  if (cpu::avx512_vnni_available()) names.emplace_back("avx512-vnni");
  return names;
}

/// The kernels that this build has.
inline std::vector<std::string> available_kernels() {
  return {"row-merge", "reference"};
}

struct Settings {
  std::string kernel = "row-merge";
  unsigned num_threads = 2;
  std::uint64_t panel_bytes = 1u << 16;
  std::uint64_t num_buffers = 4;
  std::size_t num_kept = 0;  ///< buffers that the sink keeps for a while
};

/// A decision with these settings, whatever the statistics are.
inline plan::Choice make_execution(const Settings& settings, const plan::Counts& statistics) {
  plan::Choice e;
  const std::uint64_t record = output_record_bytes(statistics.m());
  e.backend = Backend::cpu;
  e.kernel = settings.kernel;
  e.num_threads = settings.num_threads;
  e.panel_bytes = std::max<std::uint64_t>(1, settings.panel_bytes / record) * record;
  e.num_buffers = settings.num_buffers;
  return e;
}

/// Multiplies from source to sink.
inline ProductStats run_streams(const Source& a, const Source& b, Sink& sink, const Settings& settings = {},
                                const ProgressFn& on_progress = {}, const std::atomic<bool>* cancel = nullptr) {
  StageClock clock;
  const plan::Choice choice = make_execution(settings, plan::expected_counts(a.header(), b.header()));
  Output output(sink);
  const Run run{.clock = clock, .on_progress = on_progress, .cancel = cancel, .num_threads = settings.num_threads};
  if (settings.kernel == "reference") return cpu::multiply_reference(a, b, output, choice, run);
  const cpu::Isa isa = cpu::choose_isa();
  cpu::Prepared product = cpu::prepare(a, b, cpu::packed_shape(isa, a.header().m), run);
  return cpu::multiply_row_merge(product, isa, output, choice, run);
}

/// The product, after checking that the statistics agree with it.
inline ProductMatrix run_cpu(const BlockMatrix& a, const BlockMatrix& b, const Settings& settings = {}) {
  MemorySink sink(a.header(), settings.num_kept);
  const ProductStats stats = run_streams(MemorySource(a), MemorySource(b), sink, settings);
  sink.finish({});
  ProductMatrix product = sink.product();
  if (stats.num_blocks != product.index.size()) throw std::logic_error("num_blocks differs from the records written");
  if (stats.num_saturated != num_saturated(product)) throw std::logic_error("num_saturated differs from the records");
  return product;
}

/// Every instruction set, large buffers and buffers of one record (a row is shared by threads then), against the
/// oracle.
inline void check_product(const BlockMatrix& a, const BlockMatrix& b) {
  const ProductMatrix expected = oracle_multiply(a, b);
  for (const std::string& isa : available_isas()) {
    INFO(isa);
    const ForcedIsa forced(isa);
    CHECK((run_cpu(a, b) == expected));
    CHECK((run_cpu(a, b, {.panel_bytes = 1, .num_buffers = 3}) == expected));
  }
}

}  // namespace spmm::test
