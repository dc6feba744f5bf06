// A random product: operands and how they are multiplied, all from one number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spmm/block_matrix.hpp"
#include "spmm/options.hpp"

namespace spmm::test {

/// How the test calls the product.
enum class StressWay : std::uint8_t {
  memory,  ///< matrices in memory
  files,   ///< three files
  parts,   ///< two files into a folder
  ranks,   ///< spmm-mpi
};

struct StressCase {
  std::uint64_t seed = 0;
  BlockMatrix a;
  BlockMatrix b;
  std::uint64_t pairs = 0;
  StressWay way{};
  Options options;            ///< backend, kernel, threads, memory limit, parts, blocks to verify
  bool keeps_engine = false;  ///< on the engine of the products before, where the limits agree
  int num_ranks = 0;
  std::string text;  ///< one line that says all this
};

/// Limits of what is made.
struct StressLimits {
  Backend backend = Backend::cpu;
  bool has_ranks = false;
  std::string kernel{};  ///< this one only, if not empty
};

/// The case of a seed: the same limits and seed give the same case.
StressCase make_stress_case(std::uint64_t seed, const StressLimits& limits);

}  // namespace spmm::test
