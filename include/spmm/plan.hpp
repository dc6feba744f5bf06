// What will be run, decided before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spmm {

enum class Backend : std::uint8_t { automatic, cuda, cpu };

constexpr std::string_view backend_name(Backend b) {
  return b == Backend::cuda ? "cuda" : b == Backend::cpu ? "cpu" : "auto";
}

/// The plan of a run: printable data, made by pure functions from headers and limits.
struct Plan {
  Backend backend = Backend::automatic;
  std::string kernel;                    ///< name of the multiply kernel
  std::string reason;                    ///< why this backend and kernel, one clause
  unsigned num_threads = 1;              ///< host threads
  std::uint64_t host_limit_bytes = 0;    ///< never exceeded by buffers of the run
  std::uint64_t device_limit_bytes = 0;  ///< 0 on the CPU
  std::uint64_t host_need_bytes = 0;     ///< predicted peak of buffers
  std::uint64_t device_need_bytes = 0;
  std::uint64_t panel_bytes = 0;      ///< output records of one panel at most (GPU: on the device; CPU: per buffer)
  std::uint64_t num_buffers = 0;      ///< host buffers that hold output on its way to the sink
  double expected_pairs = 0;          ///< for uniformly spread blocks
  double expected_output_blocks = 0;  ///< for uniformly spread blocks
  std::uint64_t expected_panels = 0;
  std::uint32_t a_bands = 1;       ///< bands of block rows of A, one after the other, where not all fits
  std::uint32_t b_bands = 1;       ///< bands of block columns of B
  std::string expected_kernels{};  ///< kernel "auto": candidates with predicted times, fastest first
};

}  // namespace spmm
