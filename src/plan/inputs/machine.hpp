// What decisions may know of the machine. Plain data, looked up once per product (or once per engine).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spmm::plan {

/// Instruction sets of the CPU kernels, those of a machine narrowest first.
enum class Isa : std::uint8_t { portable, avx2, avx512_vnni };

/// A CUDA device that the product may use.
struct Gpu {
  int number = 0;
  std::string name{};
  std::uint64_t bytes = 0;        ///< what the products of this engine may take together
  bool has_dense_tensor = false;  ///< can run the dense tensor-core kernel
  double arithmetic = 1;          ///< multiprocessors times clock, over those of the measured device (times.cpp)
  double memory = 1;              ///< bandwidth, likewise
  double start_s = 0;             ///< until it can be used; 0: its context exists

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

struct Machine {
  unsigned num_cores = 1;              ///< that this process may use
  std::uint64_t host_limit_bytes = 0;  ///< what the products of this engine may take together; read once
  Isa isa = Isa::portable;
  std::vector<Gpu> gpus{};   ///< that may share a product, the chosen one first; empty: none is usable, or wanted
  std::string why_no_gpu{};  ///< one clause, where gpus is empty
};

}  // namespace spmm::plan
