// Dense products C[J, L] = A[J, K] * B[K, L]: the kernels of the classic studies of tiled multiplication, on host and
// device, timed on random matrices and compared with the host. All matrices row-major, any shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/dense/layout.hpp"

namespace spmm::dense {

using Type = kernels::DenseType;
using Shape = kernels::DenseShape;
using Resources = kernels::DenseResources;

const char* type_name(Type type);
std::size_t input_element_bytes(Type type);
std::size_t output_element_bytes(Type type);

// ---- one product

/// A kernel of this build. Each has every type.
struct KernelInfo {
  std::string name;
  std::string what;
  bool on_device = true;
  std::vector<unsigned> tiles;  ///< tile widths to choose from, the default first; empty if there is none
};

/// Kernels of this build: without CUDA host-naive alone.
const std::vector<KernelInfo>& kernels();

/// Errors: UsageError (this build has no such kernel).
const KernelInfo& find_kernel(const std::string& name);

struct Request {
  std::string kernel;
  Type type = Type::f32;
  unsigned tile = 0;  ///< tile width, one of the kernel's; 0 if it has none
  Shape shape;
  unsigned runs = 1;  ///< timed runs, after one that is not timed (device) or none (host)
};

struct Measurement {
  std::vector<double> run_ms;  ///< of the finished product; device: events around the kernels, operands resident
  Resources resources;         ///< zeros for the host
  std::string device;          ///< name of the GPU, or "host"
};

/// Computes C and times it.
/// Shapes: a [rows, inner], b [inner, cols], c [rows, cols], host.
/// Values: with an empty side C is all zeros, or empty, and takes no time. host-naive sums in order of the inner index
/// in the type's own arithmetic (f32: in float).
/// Errors: UsageError (unknown kernel), DeviceError, OutOfMemory.
Measurement multiply(const Request& request, std::span<const std::byte> a, std::span<const std::byte> b,
                     std::span<std::byte> c);

/// Kernels that run on the device; none in a build without CUDA, for which dense_device_stub.cpp stands in.
std::vector<KernelInfo> device_kernels();

/// Runs a request that multiply() has checked: no side is zero.
/// Errors: DeviceError (no usable device, or it lacks what the kernel needs), OutOfMemory.
Measurement multiply_on_device(const Request& request, std::span<const std::byte> a, std::span<const std::byte> b,
                               std::span<std::byte> c);

// ---- the check: rows computed again on the host

/// Multiply-adds up to which choose_rows() takes every row.
inline constexpr std::uint64_t kCheckBudget = std::uint64_t{1} << 33;

/// How many rows to compare: all where rows * inner * cols is at most `budget`, else as many as stay within it, at
/// least one.
std::uint32_t num_checked_rows(Shape shape, std::uint64_t budget = kCheckBudget);

/// num_checked_rows() rows in rising order; if these are not all, chosen by `seed`, the first and the last row among
/// them if there are two or more.
std::vector<std::uint32_t> choose_rows(Shape shape, std::uint64_t seed, std::uint64_t budget = kCheckBudget);

/// Rows of C as they should be.
struct ExpectedRows {
  std::vector<std::uint32_t> rows;  ///< rising
  std::vector<double> values;       ///< [rows.size(), cols]; holds every element of every type exactly, f32 unrounded
  double size_a = 0;                ///< f32: largest Euclidean norm of a row of A among `rows`
  double size_b = 0;                ///< f32: largest Euclidean norm of a column of B
};

/// Computes rows of the product; f32 sums in double. Threads: starts num_threads.
ExpectedRows expected_rows(Type type, Shape shape, std::span<const std::byte> a, std::span<const std::byte> b,
                           std::vector<std::uint32_t> rows, unsigned num_threads);

/// Largest difference that rounding explains. Exact types: 0. f32: 6 * sqrt(K) * 2^-24 * |row of A| * |column of B|.
/// Source: N. Higham, T. Mary, A New Approach to Probabilistic Rounding Error Analysis (2019), for every order of
/// summation; the sum of |a b| is at most the product of the norms.
double rounding_threshold(Type type, Shape shape, const ExpectedRows& expected);

/// How far C is from the expected rows.
struct Comparison {
  std::uint64_t elements = 0;     ///< compared
  std::uint64_t differences = 0;  ///< elements off by more than the threshold, or not a number
  double largest = 0;             ///< largest |difference|
};

/// Shapes: c [shape.rows, cols].
Comparison compare_rows(Type type, Shape shape, const ExpectedRows& expected, std::span<const std::byte> c,
                        double threshold);

// ---- many products

/// Multiply-adds up to which the kernel name "all" stands for host-naive too: about a second on one core.
inline constexpr std::uint64_t kHostNaiveLimit = std::uint64_t{1} << 31;

struct RunOptions {
  Type type = Type::f32;
  std::vector<std::string> kernels;  ///< as typed, "all" among them or not
  std::vector<unsigned> tiles;       ///< widths for kernels that have some; none = each kernel's own
  unsigned runs = 1;
  std::uint64_t check_budget = kCheckBudget;  ///< multiply-adds of the check; 0 = none
  std::optional<double> threshold;            ///< nothing = rounding_threshold()
  std::uint64_t seed = 1;
  unsigned num_threads = 1;  ///< for inputs and the check
};

/// Elements uniform from -10 to 10, of u16 from 0 to 1,023; the same for every number of threads.
std::vector<std::byte> random_dense(Type type, std::uint64_t count, std::uint64_t key, unsigned num_threads);

/// One kernel on one shape.
struct Result {
  Request request;
  std::string refusal;  ///< why it did not run
  Measurement measurement{};
  std::optional<Comparison> comparison{};
  double threshold = 0;

  [[nodiscard]] bool ran() const { return refusal.empty(); }
  [[nodiscard]] bool passed() const { return !comparison || comparison->differences == 0; }
};

/// What will run for a shape, in order. Errors: UsageError (no such kernel in this build).
std::vector<Result> plan_results(const RunOptions& options, Shape shape);

/// Errors: OutOfMemory if A, B, C and the rows that the check keeps exceed `available_bytes`.
void check_memory(const RunOptions& options, Shape shape, std::uint64_t available_bytes);

/// Results of a shape.
struct Product {
  Shape shape;
  std::uint32_t rows_checked = 0;
  std::vector<Result> results;
};

/// Runs the kernels one after the other on the same random operands. What the device or the memory refuses is a result
/// with the reason. Errors: UsageError, Interrupted.
Product run_product(Shape shape, const RunOptions& options);

}  // namespace spmm::dense
