// Runs the built tools and makes small files for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/memory/machine_memory.hpp"
#include "spmm/block_matrix.hpp"
#include "support/process.hpp"
#include "test_paths.hpp"

namespace spmm::test {

/// Runs spmm-NAME ("gen", "compare", "info").
inline ProcessResult run_tool(const std::string& name, std::vector<std::string> arguments,
                              const ProcessOptions& options = {}) {
  arguments.insert(arguments.begin(), SPMM_BIN_DIR "/spmm-" + name);
  return run_process(arguments, options);
}

/// Whether a program's memory stayed below a limit. It is reported as at least that of these tests, and the sanitizers
/// add much of their own.
inline bool stayed_below(const ProcessResult& result, std::uint64_t limit_bytes) {
#if defined(__SANITIZE_ADDRESS__)
  limit_bytes += 1'000'000'000;
#endif
  return result.peak_resident_bytes <= std::max(limit_bytes, peak_resident_bytes());
}

/// Path of a file of data/golden.
inline std::string golden(const std::string& name) {
  return SPMM_SOURCE_DIR "/data/golden/" + name;
}

/// A matrix from its blocks. Shapes: values [index.size(), m, m].
template <class T>
BlockList<T> matrix_of(std::uint32_t n, std::uint32_t m, std::vector<BlockIndex> index, std::vector<T> values) {
  return {.n = n, .m = m, .index = std::move(index), .values = std::move(values)};
}

}  // namespace spmm::test
