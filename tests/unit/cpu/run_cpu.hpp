// Runs the CPU backend on matrices in memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/run.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/kernels.hpp"
#include "support/memory_stream.hpp"

namespace spmm::test {

/// Forces an instruction set while it lives; "" = none forced.
class ForcedIsa {
 public:
  explicit ForcedIsa(const std::string& name) { setenv("SPMM_CPU_ISA", name.c_str(), 1); }
  ~ForcedIsa() { unsetenv("SPMM_CPU_ISA"); }
  ForcedIsa(const ForcedIsa&) = delete;
  ForcedIsa& operator=(const ForcedIsa&) = delete;
};

inline std::vector<std::string> available_isas() {
  std::vector<std::string> names = {"portable"};
  if (cpu::avx2_available()) names.emplace_back("avx2");
  if (cpu::avx512_vnni_available()) names.emplace_back("avx512-vnni");
  return names;
}

/// The kernels that this build has.
inline std::vector<std::string> available_kernels() {
  std::vector<std::string> names = {"row-merge", "reference"};
  if (!cpu::build_info().empty()) names.emplace_back("dense-blas");
  return names;
}

struct Settings {
  std::string kernel = "row-merge";
  unsigned num_threads = 2;
  std::uint64_t panel_bytes = 1u << 16;
  std::uint64_t num_buffers = 4;
  std::size_t num_kept = 0;  ///< buffers that the sink keeps for a while
};

inline Plan make_plan(const Settings& settings) {
  Plan plan;
  plan.backend = Backend::cpu;
  plan.kernel = settings.kernel;
  plan.num_threads = settings.num_threads;
  plan.panel_bytes = settings.panel_bytes;
  plan.num_buffers = settings.num_buffers;
  return plan;
}

/// Multiplies from source to sink.
inline ProductStats run_streams(const Source& a, const Source& b, Sink& sink, const Settings& settings = {},
                                const ProgressFn& on_progress = {}, const std::atomic<bool>* cancel = nullptr) {
  StageClock clock;
  return cpu::multiply(
      a, b, sink, make_plan(settings),
      {.clock = clock, .on_progress = on_progress, .cancel = cancel, .num_threads = settings.num_threads});
}

/// The product, after checking that the statistics agree with it.
inline ProductMatrix run_cpu(const BlockMatrix& a, const BlockMatrix& b, const Settings& settings = {}) {
  MemorySink sink(a.header(), settings.num_kept);
  const ProductStats stats = run_streams(MemorySource(a), MemorySource(b), sink, settings);
  sink.finish({});
  ProductMatrix product = sink.product();
  if (stats.num_blocks != product.index.size()) throw std::logic_error("num_blocks differs from the records written");
  return product;
}

}  // namespace spmm::test
