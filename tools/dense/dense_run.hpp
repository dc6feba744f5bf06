// What spmm-dense runs for a shape: kernels and tile widths, each timed and compared with the host.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/dense/dense_check.hpp"
#include "tools/dense/dense_matrix.hpp"
#include "tools/dense/dense_multiply.hpp"

namespace spmm::tools {

/// Multiply-adds up to which the kernel name "all" stands for host-naive too: about a second on one core.
inline constexpr std::uint64_t kHostNaiveLimit = std::uint64_t{1} << 31;

enum class CheckMode : std::uint8_t { sample, full, none };

struct DenseOptions {
  dense::Type type = dense::Type::f32;
  std::vector<std::string> kernels;  ///< as typed, "all" among them or not
  std::vector<unsigned> tiles;       ///< widths for kernels that have some; none = each kernel's own
  ValueRange range;                  ///< of random elements
  unsigned runs = 1;
  CheckMode check = CheckMode::sample;
  std::optional<double> threshold;  ///< nothing = rounding_threshold()
  std::uint64_t seed = 1;
  unsigned num_threads = 1;  ///< for inputs and the check
};

/// One kernel on one shape.
struct DenseResult {
  dense::Request request;
  dense::Measurement measurement;
  std::optional<dense::Comparison> comparison;
  double threshold = 0;
  std::string refusal;  ///< why it did not run

  [[nodiscard]] bool ran() const { return refusal.empty(); }
  [[nodiscard]] bool passed() const { return !comparison || comparison->differences == 0; }
  [[nodiscard]] double median_ms() const;
  [[nodiscard]] double min_ms() const;
  /// 2 * J * K * L operations over the median.
  [[nodiscard]] double gflops() const;
};

/// What will run for a shape, in order. Errors: UsageError (no such kernel in this build).
std::vector<DenseResult> plan_results(const DenseOptions& options, dense::Shape shape);

/// Errors: OutOfMemory if A, B, C and the rows that the check keeps exceed `available_bytes`.
void check_memory(const DenseOptions& options, dense::Shape shape, std::uint64_t available_bytes);

/// Operands and results of a shape.
struct DenseProduct {
  dense::Shape shape;
  std::vector<std::byte> a;
  std::vector<std::byte> b;
  std::uint32_t rows_checked = 0;
  std::vector<DenseResult> results;
};

/// Called after each kernel with C [rows, cols] as it left it, empty if it did not run.
using ResultFn =
    std::function<void(const DenseProduct& product, const DenseResult& result, std::span<const std::byte> c)>;

/// Runs the kernels one after the other on the same random operands. What the device or the memory refuses is a result
/// with the reason. Errors: UsageError, Interrupted.
DenseProduct run_product(dense::Shape shape, const DenseOptions& options, const ResultFn& on_result);

}  // namespace spmm::tools
