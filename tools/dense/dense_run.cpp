#include "tools/dense/dense_run.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "tools/common/random.hpp"
#include "tools/dense/dense_elements.hpp"

namespace spmm::tools {
namespace {

using dense::KernelInfo;
using dense::Shape;
using dense::Type;

constexpr std::uint64_t kFillGrain = std::uint64_t{1} << 16;
constexpr auto kUnwritten = std::byte{0xA5};  // what C holds before a kernel runs

double multiply_adds(Shape shape) {
  return static_cast<double>(shape.rows) * shape.inner * shape.cols;
}

double range_end(const std::string& word, Type type, const std::string& where) {
  return dense::for_elements(type, [&]<class E>(E) {
    using In = typename E::In;
    using Limits = std::numeric_limits<In>;
    const auto lowest = static_cast<double>(Limits::lowest());
    const auto highest = static_cast<double>(Limits::max());
    const std::optional<double> value = parse_number(word);
    if (value && *value >= lowest && *value <= highest && (!Limits::is_integer || *value == std::floor(*value))) {
      return static_cast<double>(static_cast<In>(*value));
    }
    throw UsageError(where, "\"" + word + "\" is no end of a range",
                     !Limits::is_integer ? "give a finite number"
                     : Limits::is_signed ? "give a whole number from -2147483648 to 2147483647"
                                         : "give a whole number from 0 to 65535");
  });
}

/// The random number as a value of the range.
template <class T>
T value_in(std::uint64_t random, ValueRange range) {
  if constexpr (std::is_floating_point_v<T>) {
    const double share = static_cast<double>(random >> 11) * 0x1p-53;
    return static_cast<T>(range.low + share * (range.high - range.low));
  } else {
    // Values per number of the upper 32 bits: a span is at most 2^32, and low + offset fits the type.
    const auto low = static_cast<std::int64_t>(range.low);
    const std::uint64_t span = static_cast<std::uint64_t>(static_cast<std::int64_t>(range.high) - low) + 1;
    return static_cast<T>(low + static_cast<std::int64_t>(((random >> 32) * span) >> 32));
  }
}

template <class T>
void write_elements(std::ostream& out, std::span<const std::byte> elements, std::uint32_t cols, char separator) {
  std::array<char, 32> number{};
  const std::size_t count = elements.size() / sizeof(T);
  for (std::size_t at = 0; at < count; ++at) {
    const auto [end, error] = std::to_chars(number.data(), number.data() + number.size(), dense::load<T>(elements, at));
    out.write(number.data(), end - number.data()).put((at + 1) % cols == 0 ? '\n' : separator);
  }
}

}  // namespace

std::optional<double> parse_number(const std::string& word) {
  double value = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::string default_range(Type type) {
  return type == Type::u16 ? "0:1023" : "-10:10";
}

ValueRange parse_range(const std::string& text, Type type, const std::string& where) {
  const std::size_t colon = text.find(':');
  std::string mistake = "is no range";
  if (colon != std::string::npos) {
    const ValueRange range{.low = range_end(text.substr(0, colon), type, where),
                           .high = range_end(text.substr(colon + 1), type, where)};
    if (range.low <= range.high) return range;
    mistake = "ends below its start";
  }
  throw UsageError(where, "\"" + text + "\" " + mistake, "write lowest:highest, like " + default_range(type));
}

std::vector<std::byte> random_dense(Type type, std::uint64_t count, ValueRange range, std::uint64_t key,
                                    unsigned num_threads) {
  std::vector<std::byte> elements(count * dense::input_element_bytes(type));
  dense::for_elements(type, [&]<class E>(E) {
    using In = typename E::In;
    parallel_for(num_threads, count, kFillGrain, [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t at = begin; at < end; ++at) {
        dense::store<In>(elements, at, value_in<In>(random_at(key, at), range));
      }
    });
  });
  return elements;
}

void write_dense(const std::string& path, Type type, Operand operand, std::span<const std::byte> elements,
                 std::uint32_t cols) {
  for (const auto& [ending, separator] : {std::pair(".txt", ' '), std::pair(".csv", ',')}) {
    std::ofstream file(path + ending, std::ios::binary | std::ios::trunc);
    if (!file) throw OutputError(path + ending, "cannot be created", "name a folder that can be written");
    dense::for_elements(type, [&]<class E>(E) {
      if (operand == Operand::input) return write_elements<typename E::In>(file, elements, cols, separator);
      write_elements<typename E::Out>(file, elements, cols, separator);
    });
    file.close();
    if (!file) throw IoError(path + ending, "writing failed", "check the free space of its folder (df)");
  }
}

double DenseResult::median_ms() const {
  std::vector<double> sorted = measurement.run_ms;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double DenseResult::min_ms() const {
  return *std::min_element(measurement.run_ms.begin(), measurement.run_ms.end());
}

double DenseResult::gflops() const {
  const double median = median_ms();
  return median > 0 ? 2 * multiply_adds(request.shape) * 1e-6 / median : 0;
}

std::vector<DenseResult> plan_results(const DenseOptions& options, Shape shape) {
  std::vector<DenseResult> results;
  for (const std::string& name : options.kernels) {
    const bool is_all = name == "all";
    if (!is_all) dense::find_kernel(name);
    for (const KernelInfo& kernel : dense::kernels()) {
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

void check_memory(const DenseOptions& options, Shape shape, std::uint64_t available_bytes) {
  const auto inputs = static_cast<double>(dense::input_element_bytes(options.type));
  const auto results = static_cast<double>(dense::output_element_bytes(options.type));
  const double rows = shape.rows;
  const double cols = shape.cols;
  double need = (rows + cols) * shape.inner * inputs + rows * cols * results;
  if (options.check_budget != 0) {
    need += dense::num_checked_rows(shape, options.check_budget) * cols * sizeof(double);
  }
  if (need <= static_cast<double>(available_bytes)) return;
  const auto shown = need < 1e18 ? static_cast<std::uint64_t>(need) : UINT64_MAX;
  throw OutOfMemory(text("shape ", shape.rows, "x", shape.inner, "x", shape.cols),
                    text("needs ", human_bytes(shown), " of host memory, ", human_bytes(available_bytes), " is free"),
                    "give a smaller shape, or --check sample or none");
}

DenseProduct run_product(Shape shape, const DenseOptions& options, const ResultFn& on_result) {
  DenseProduct product{.shape = shape, .a = {}, .b = {}, .rows_checked = 0, .results = plan_results(options, shape)};
  const auto random = [&](std::uint64_t count, std::uint64_t place) {
    return random_dense(options.type, count, options.range, random_at(options.seed, place), options.num_threads);
  };
  product.a = random(std::uint64_t{shape.rows} * shape.inner, 0);
  product.b = random(std::uint64_t{shape.inner} * shape.cols, 1);
  std::vector<std::byte> c(std::size_t{shape.rows} * shape.cols * dense::output_element_bytes(options.type));
  std::optional<dense::ExpectedRows> expected;  // by the first kernel that runs
  for (DenseResult& result : product.results) {
    cli::check_cancelled("spmm-dense");
    if (result.ran()) {
      std::fill(c.begin(), c.end(), kUnwritten);
      try {
        result.measurement = dense::multiply(result.request, product.a, product.b, c);
        if (options.check_budget != 0) {
          if (!expected) {
            expected = dense::expected_rows(options.type, shape, product.a, product.b,
                                            dense::choose_rows(shape, options.seed, options.check_budget),
                                            options.num_threads);
            product.rows_checked = static_cast<std::uint32_t>(expected->rows.size());
          }
          result.threshold = options.threshold.value_or(dense::rounding_threshold(options.type, shape, *expected));
          result.comparison =
              dense::compare_rows(options.type, shape, *expected, c, result.threshold, options.num_threads);
        }
      } catch (const DeviceError& error) {
        result.refusal = error.what();
      } catch (const OutOfMemory& error) {
        result.refusal = error.what();
      }
    }
    on_result(product, result, result.ran() ? std::span<const std::byte>(c) : std::span<const std::byte>());
  }
  return product;
}

}  // namespace spmm::tools
