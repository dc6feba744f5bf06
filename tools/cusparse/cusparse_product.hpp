// Products of CSR matrices by cuSPARSE: what one would use instead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/cusparse/csr_matrix.hpp"

namespace spmm::tools {

/// One way to multiply: the type of elements and sums, and an algorithm of cusparseSpGEMM.
struct CusparseWay {
  std::string name;  ///< f64-alg2
  bool is_double = true;
  int algorithm = 1;  ///< 1 to 3
};

/// All that there are. Results in doubles are exact below 2^53, those in floats below 2^24.
std::span<const CusparseWay> cusparse_ways();

struct CusparseOptions {
  unsigned num_runs = 3;
  float chunk_fraction = 0.2F;  ///< of algorithms 2 and 3: the share of the products that is held at a time
  int device = 0;
};

/// One run: milliseconds between events.
struct CusparseTimes {
  double estimate_ms = 0;  ///< work estimation, and that of the memory
  double compute_ms = 0;
  double copy_ms = 0;  ///< C's columns and values, behind their allocation

  [[nodiscard]] double ms() const { return estimate_ms + compute_ms + copy_ms; }
};

struct CusparseResult {
  std::string refusal;  ///< what the library or the device said; "" if it ran
  std::vector<CusparseTimes> runs;
  std::uint64_t work_bytes = 0;    ///< buffers of the library that were there at one time, C not counted
  std::uint64_t result_bytes = 0;  ///< C
  std::uint64_t num_entries = 0;   ///< of C
};

/// Shapes: offsets [rows + 1], columns and values [entries], host.
using OnResult = std::function<void(std::span<const std::int32_t> offsets, std::span<const std::int32_t> columns,
                                    std::span<const double> values)>;

/// Operands of one process, which stay on the device from way to way as long as these have the same type of elements.
class CusparseRunner {
 public:
  /// Values: a and b must outlive it.
  CusparseRunner(const CsrMatrix& a, const CsrMatrix& b, const CusparseOptions& options);
  ~CusparseRunner();
  CusparseRunner(const CusparseRunner&) = delete;
  CusparseRunner& operator=(const CusparseRunner&) = delete;

  /// Multiplies once to warm up and num_runs times, memory kept from run to run. `on_result`, where given, gets the
  /// result of the warm-up.
  CusparseResult run(const CusparseWay& way, const OnResult& on_result);

  /// Whether the device still works: a fault spoils it for this process.
  [[nodiscard]] bool is_well() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Name of a device and version of the library, "NVIDIA H200, cuSPARSE 12.6.3". Errors: DeviceError.
std::string cusparse_device_text(int device);

}  // namespace spmm::tools
