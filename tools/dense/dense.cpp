// Dense products on the host, their check, random matrices, and the runs of spmm-dense.
#include "tools/dense/dense.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <utility>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "spmm/saturate.hpp"
#include "tools/common/random.hpp"

namespace spmm::dense {
namespace {

/// What a Type stands for. InType, OutType: elements of A and B, of C. SumType: the running sum as C programs write it.
/// WideType: holds the sum for the check, exactly if the type is exact.
template <class InType, class OutType, class SumType, class WideType>
struct Elements {
  using In = InType;
  using Out = OutType;
  using Sum = SumType;
  using Wide = WideType;
};

/// Calls body(Elements()) of the type. Sums of int32_t are unsigned: an int32_t may not wrap.
template <class Body>
decltype(auto) for_elements(Type type, const Body& body) {
  if (type == Type::i32) return body(Elements<std::int32_t, std::int32_t, std::uint32_t, std::uint32_t>());
  if (type == Type::f32) return body(Elements<float, float, float, double>());
  return body(Elements<std::uint16_t, std::uint32_t, std::uint64_t, std::uint64_t>());
}

/// Sums as elements of C; those in double stay as they are.
template <class T>
auto finish(T sum) {
  if constexpr (std::is_same_v<T, std::uint32_t>) return static_cast<std::int32_t>(sum);
  if constexpr (std::is_same_v<T, std::uint64_t>) return saturate(sum);
  if constexpr (std::is_floating_point_v<T>) return sum;
}

/// Element `at` of an array of T.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::span<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at * sizeof(T), &value, sizeof(T));
}

double multiply_adds(Shape shape) {
  return static_cast<double>(shape.rows) * shape.inner * shape.cols;
}

/// The textbook product: three loops on one core.
template <class E>
void multiply_naive(Shape shape, std::span<const std::byte> a, std::span<const std::byte> b, std::span<std::byte> c) {
  using In = typename E::In;
  using Sum = typename E::Sum;
  const std::size_t inner = shape.inner;
  const std::size_t cols = shape.cols;
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      Sum sum = 0;
      for (std::size_t k = 0; k < inner; ++k) {
        sum += static_cast<Sum>(load<In>(a, i * inner + k)) * static_cast<Sum>(load<In>(b, k * cols + j));
      }
      store(c, i * cols + j, finish(sum));
    }
  }
}

Measurement multiply_on_host(const Request& request, std::span<const std::byte> a, std::span<const std::byte> b,
                             std::span<std::byte> c) {
  using Clock = std::chrono::steady_clock;
  Measurement measurement{.run_ms = {}, .resources = {}, .device = "host"};
  for (unsigned run = 0; run < std::max(1u, request.runs); ++run) {
    const auto start = Clock::now();
    for_elements(request.type, [&]<class E>(E) { multiply_naive<E>(request.shape, a, b, c); });
    const std::chrono::duration<double, std::milli> elapsed = Clock::now() - start;
    if (run < request.runs) measurement.run_ms.push_back(elapsed.count());
  }
  return measurement;
}

/// One row of the product.
template <class E>
void compute_row(Shape shape, std::span<const std::byte> a, std::span<const std::byte> b, std::size_t row,
                 std::span<double> out) {
  using In = typename E::In;
  using Wide = typename E::Wide;
  std::vector<Wide> sums(shape.cols);
  for (std::size_t k = 0; k < shape.inner; ++k) {
    const auto factor = static_cast<Wide>(load<In>(a, row * shape.inner + k));
    for (std::size_t j = 0; j < sums.size(); ++j) {
      sums[j] += factor * static_cast<Wide>(load<In>(b, k * shape.cols + j));
    }
  }
  for (std::size_t j = 0; j < sums.size(); ++j) out[j] = static_cast<double>(finish(sums[j]));
}

/// Norms of rows of A and columns of B, for the threshold of f32.
void measure_operands(Shape shape, std::span<const std::byte> a, std::span<const std::byte> b, ExpectedRows& expected) {
  for (const std::size_t row : expected.rows) {
    double square = 0;
    for (std::size_t k = 0; k < shape.inner; ++k) square += std::pow(load<float>(a, row * shape.inner + k), 2);
    expected.size_a = std::max(expected.size_a, std::sqrt(square));
  }
  std::vector<double> squares(shape.cols);
  for (std::size_t k = 0; k < shape.inner; ++k) {
    for (std::size_t j = 0; j < shape.cols; ++j) squares[j] += std::pow(load<float>(b, k * shape.cols + j), 2);
  }
  for (const double square : squares) expected.size_b = std::max(expected.size_b, std::sqrt(square));
}

/// The random number as an element: of -10 to 10, of u16 0 to 1,023, whose sums begin to saturate near K = 16,000,
/// where the check still sees every term.
template <class T>
T element_of(std::uint64_t random) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(-10 + static_cast<double>(random >> 11) * 0x1p-53 * 20);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>((random >> 32) * 21 >> 32) - 10);
  } else {
    return static_cast<T>(random >> 54);
  }
}

}  // namespace

const char* type_name(Type type) {
  return type == Type::i32 ? "i32" : type == Type::f32 ? "f32" : "u16";
}

std::size_t input_element_bytes(Type type) {
  return for_elements(type, []<class E>(E) { return sizeof(typename E::In); });
}

std::size_t output_element_bytes(Type type) {
  return for_elements(type, []<class E>(E) { return sizeof(typename E::Out); });
}

const std::vector<KernelInfo>& kernels() {
  static const std::vector<KernelInfo> kAll = [] {
    std::vector<KernelInfo> all = {
        {.name = "host-naive", .what = "three loops on one core", .on_device = false, .tiles = {}}};
    for (KernelInfo& kernel : device_kernels()) all.push_back(std::move(kernel));
    return all;
  }();
  return kAll;
}

const KernelInfo& find_kernel(const std::string& name) {
  std::string names;
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.name == name) return kernel;
    names += ", " + kernel.name;
  }
  throw UsageError("--kernel", text("this build has no kernel \"", name, "\""), "use some of: all" + names);
}

Measurement multiply(const Request& request, std::span<const std::byte> a, std::span<const std::byte> b,
                     std::span<std::byte> c) {
  const KernelInfo& kernel = find_kernel(request.kernel);
  if (a.empty() || b.empty()) {  // sums without terms
    std::fill(c.begin(), c.end(), std::byte{0});
    return {.run_ms = std::vector<double>(request.runs, 0.0), .resources = {}, .device = "host"};
  }
  return kernel.on_device ? multiply_on_device(request, a, b, c) : multiply_on_host(request, a, b, c);
}

// ---- the check

std::uint32_t num_checked_rows(Shape shape, std::uint64_t budget) {
  const std::uint64_t row_cost = std::max<std::uint64_t>(1, std::uint64_t{shape.inner} * shape.cols);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::max<std::uint64_t>(1, budget / row_cost), shape.rows));
}

std::vector<std::uint32_t> choose_rows(Shape shape, std::uint64_t seed, std::uint64_t budget) {
  std::vector<std::uint32_t> all(shape.rows);
  std::iota(all.begin(), all.end(), 0u);
  std::vector<std::uint32_t> chosen;
  std::sample(all.begin(), all.end(), std::back_inserter(chosen), num_checked_rows(shape, budget),
              std::mt19937_64(seed));  // keeps the order
  if (chosen.size() >= 2) {
    chosen.front() = 0;
    chosen.back() = shape.rows - 1;
  }
  return chosen;
}

ExpectedRows expected_rows(Type type, Shape shape, std::span<const std::byte> a, std::span<const std::byte> b,
                           std::vector<std::uint32_t> rows, unsigned num_threads) {
  ExpectedRows expected;
  expected.rows = std::move(rows);
  expected.values.resize(expected.rows.size() * shape.cols);
  for_elements(type, [&]<class E>(E) {
    parallel_for(num_threads, expected.rows.size(), 1, [&](std::uint64_t r, std::uint64_t) {
      compute_row<E>(shape, a, b, expected.rows[r], std::span(expected.values).subspan(r * shape.cols, shape.cols));
    });
  });
  if (type == Type::f32) measure_operands(shape, a, b, expected);
  return expected;
}

double rounding_threshold(Type type, Shape shape, const ExpectedRows& expected) {
  constexpr double kUnitRoundoff = 0x1p-24;  // of float
  constexpr double kConfidence = 6;          // no element of 10^8 is expected beyond it
  if (type != Type::f32) return 0;
  return kConfidence * std::sqrt(static_cast<double>(shape.inner)) * kUnitRoundoff * expected.size_a * expected.size_b;
}

Comparison compare_rows(Type type, Shape shape, const ExpectedRows& expected, std::span<const std::byte> c,
                        double threshold) {
  const std::size_t cols = shape.cols;
  Comparison found{.elements = expected.values.size()};
  for_elements(type, [&]<class E>(E) {
    for (std::size_t x = 0; x < expected.values.size(); ++x) {
      const double is = static_cast<double>(load<typename E::Out>(c, expected.rows[x / cols] * cols + x % cols));
      const double difference = std::abs(is - expected.values[x]);
      found.differences += difference <= threshold ? 0u : 1u;  // not a number is a difference as well
      found.largest =
          std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(found.largest, difference);
    }
  });
  return found;
}

// ---- many products

std::vector<std::byte> random_dense(Type type, std::uint64_t count, std::uint64_t key, unsigned num_threads) {
  constexpr std::uint64_t kGrain = std::uint64_t{1} << 16;
  std::vector<std::byte> elements(count * input_element_bytes(type));
  for_elements(type, [&]<class E>(E) {
    parallel_for(num_threads, count, kGrain, [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t at = begin; at < end; ++at) {
        store(elements, at, element_of<typename E::In>(tools::random_at(key, at)));
      }
    });
  });
  return elements;
}

std::vector<Result> plan_results(const RunOptions& options, Shape shape) {
  std::vector<Result> results;
  for (const std::string& name : options.kernels) {
    const bool is_all = name == "all";
    if (!is_all) find_kernel(name);
    for (const KernelInfo& kernel : kernels()) {
      if (!is_all && kernel.name != name) continue;
      const bool is_slow = is_all && !kernel.on_device && multiply_adds(shape) > static_cast<double>(kHostNaiveLimit);
      std::vector<unsigned> widths = options.tiles;
      if (kernel.tiles.empty()) widths = {0};
      if (widths.empty()) widths = {kernel.tiles.front()};
      for (const unsigned width : widths) {
        results.push_back(
            {.request =
                 {.kernel = kernel.name, .type = options.type, .tile = width, .shape = shape, .runs = options.runs},
             .refusal = is_slow ? "slow on one core for this shape; name it to run it" : ""});
      }
    }
  }
  return results;
}

void check_memory(const RunOptions& options, Shape shape, std::uint64_t available_bytes) {
  const double rows = shape.rows;
  const double cols = shape.cols;
  double need = (rows + cols) * shape.inner * static_cast<double>(input_element_bytes(options.type)) +
                rows * cols * static_cast<double>(output_element_bytes(options.type));
  if (options.check_budget != 0) need += num_checked_rows(shape, options.check_budget) * cols * sizeof(double);
  if (need <= static_cast<double>(available_bytes)) return;
  const auto shown = need < 1e18 ? static_cast<std::uint64_t>(need) : UINT64_MAX;
  throw OutOfMemory(text("shape ", shape.rows, "x", shape.inner, "x", shape.cols),
                    text("needs ", human_bytes(shown), " of host memory, ", human_bytes(available_bytes), " is free"),
                    "give a smaller shape, or --check sample or none");
}

Product run_product(Shape shape, const RunOptions& options) {
  constexpr auto kUnwritten = std::byte{0xA5};  // what C holds before a kernel runs
  Product product{.shape = shape, .rows_checked = 0, .results = plan_results(options, shape)};
  const auto random = [&](std::uint64_t count, std::uint64_t place) {
    return random_dense(options.type, count, tools::random_at(options.seed, place), options.num_threads);
  };
  const std::vector<std::byte> a = random(std::uint64_t{shape.rows} * shape.inner, 0);
  const std::vector<std::byte> b = random(std::uint64_t{shape.inner} * shape.cols, 1);
  std::vector<std::byte> c(std::size_t{shape.rows} * shape.cols * output_element_bytes(options.type));
  std::optional<ExpectedRows> expected;  // by the first kernel that runs
  for (Result& result : product.results) {
    cli::check_cancelled("spmm-dense");
    if (!result.ran()) continue;
    std::fill(c.begin(), c.end(), kUnwritten);
    try {
      result.measurement = multiply(result.request, a, b, c);
      if (options.check_budget == 0) continue;
      if (!expected) {
        expected = expected_rows(options.type, shape, a, b, choose_rows(shape, options.seed, options.check_budget),
                                 options.num_threads);
        product.rows_checked = static_cast<std::uint32_t>(expected->rows.size());
      }
      result.threshold = options.threshold.value_or(rounding_threshold(options.type, shape, *expected));
      result.comparison = compare_rows(options.type, shape, *expected, c, result.threshold);
    } catch (const DeviceError& error) {
      result.refusal = error.what();
    } catch (const OutOfMemory& error) {
      result.refusal = error.what();
    }
  }
  return product;
}

}  // namespace spmm::dense
