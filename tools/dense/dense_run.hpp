// What spmm-dense runs for a shape: kernels and tile widths on random matrices, each timed and compared with the host.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/dense/dense_check.hpp"
#include "tools/dense/dense_multiply.hpp"

namespace spmm::tools {

/// Multiply-adds up to which the kernel name "all" stands for host-naive too: about a second on one core.
inline constexpr std::uint64_t kHostNaiveLimit = std::uint64_t{1} << 31;

/// Values of random elements, both ends included.
struct ValueRange {
  double low = 0;
  double high = 0;
};

struct DenseOptions {
  dense::Type type = dense::Type::f32;
  std::vector<std::string> kernels;  ///< as typed, "all" among them or not
  std::vector<unsigned> tiles;       ///< widths for kernels that have some; none = each kernel's own
  ValueRange range;                  ///< of random elements
  unsigned runs = 1;
  std::uint64_t check_budget = dense::kCheckBudget;  ///< multiply-adds of the check; 0 = none
  std::optional<double> threshold;                   ///< nothing = rounding_threshold()
  std::uint64_t seed = 1;
  unsigned num_threads = 1;  ///< for inputs and the check
};

/// All of `word` as a number; nothing if it is none.
std::optional<double> parse_number(const std::string& word);

/// What --range is where it is not given: -10:10; u16: 0:1023, whose sums begin to saturate near K = 16,000, where the
/// check still sees every term.
std::string default_range(dense::Type type);

/// "-10:10" -> ends that elements of the type can have; whole numbers but for f32. Errors: UsageError names `where`.
ValueRange parse_range(const std::string& text, dense::Type type, const std::string& where);

/// Elements uniform in the range (f32: any of the type between the ends); the same for every number of threads.
std::vector<std::byte> random_dense(dense::Type type, std::uint64_t count, ValueRange range, std::uint64_t key,
                                    unsigned num_threads);

/// Whether elements are those of A and B, or of C.
enum class Operand : std::uint8_t { input, result };

/// Writes one matrix to PATH.txt, blanks between elements, and PATH.csv, a row a line; f32 with as many digits as give
/// the same number again. Shapes: elements [rows, cols]. Errors: OutputError, IoError.
void write_dense(const std::string& path, dense::Type type, Operand operand, std::span<const std::byte> elements,
                 std::uint32_t cols);

/// One kernel on one shape.
struct DenseResult {
  dense::Request request;
  std::string refusal;  ///< why it did not run
  dense::Measurement measurement{};
  std::optional<dense::Comparison> comparison{};
  double threshold = 0;

  [[nodiscard]] bool ran() const { return refusal.empty(); }
  [[nodiscard]] bool passed() const { return !comparison || comparison->differences == 0; }
  /// Values: at least one run.
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
