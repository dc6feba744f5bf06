#include "tools/dense/dense_run.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "tools/common/random.hpp"

namespace spmm::tools {
namespace {

using dense::KernelInfo;
using dense::Shape;

constexpr auto kUnwritten = std::byte{0xA5};  // what C holds before a kernel runs

double multiply_adds(Shape shape) {
  return static_cast<double>(shape.rows) * shape.inner * shape.cols;
}

std::uint64_t check_budget(CheckMode mode) {
  return mode == CheckMode::full ? UINT64_MAX : dense::kCheckBudget;
}

void compare_with_host(DenseResult& result, const DenseProduct& product, const DenseOptions& options,
                       std::span<const std::byte> c, std::optional<dense::ExpectedRows>& expected) {
  if (!expected) {
    auto rows = dense::choose_rows(product.shape, options.seed, check_budget(options.check));
    expected =
        dense::expected_rows(options.type, product.shape, product.a, product.b, std::move(rows), options.num_threads);
  }
  result.threshold = options.threshold.value_or(dense::rounding_threshold(options.type, product.shape, *expected));
  result.comparison =
      dense::compare_rows(options.type, product.shape, *expected, c, result.threshold, options.num_threads);
}

}  // namespace

double DenseResult::median_ms() const {
  std::vector<double> sorted = measurement.run_ms;
  if (sorted.empty()) return 0;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double DenseResult::min_ms() const {
  const auto& all = measurement.run_ms;
  return all.empty() ? 0 : *std::min_element(all.begin(), all.end());
}

double DenseResult::gflops() const {
  const double median = median_ms();
  return median > 0 ? 2 * multiply_adds(request.shape) * 1e-6 / median : 0;
}

std::vector<DenseResult> plan_results(const DenseOptions& options, Shape shape) {
  std::vector<DenseResult> results;
  const auto add = [&](const KernelInfo& kernel, const std::string& refusal) {
    std::vector<unsigned> widths = options.tiles;
    if (kernel.tiles.empty()) widths = {0};
    if (widths.empty()) widths = {kernel.tiles.front()};
    for (const unsigned width : widths) {
      DenseResult result;
      result.request = {
          .kernel = kernel.name, .type = options.type, .tile = width, .shape = shape, .runs = options.runs};
      result.refusal = refusal;
      results.push_back(std::move(result));
    }
  };
  for (const std::string& name : options.kernels) {
    if (name != "all") {
      add(dense::find_kernel(name), "");
      continue;
    }
    for (const KernelInfo& kernel : dense::kernels()) {
      const bool is_slow = !kernel.on_device && multiply_adds(shape) > static_cast<double>(kHostNaiveLimit);
      add(kernel, is_slow ? "slow on one core for this shape; name it to run it" : "");
    }
  }
  return results;
}

void check_memory(const DenseOptions& options, Shape shape, std::uint64_t available_bytes) {
  const auto inputs = static_cast<double>(dense::input_element_bytes(options.type));
  const auto results = static_cast<double>(dense::output_element_bytes(options.type));
  const double rows = shape.rows;
  const double inner = shape.inner;
  const double cols = shape.cols;
  double need = (rows + cols) * inner * inputs + rows * cols * results;
  if (options.check != CheckMode::none) {
    need += dense::num_checked_rows(shape, check_budget(options.check)) * cols * sizeof(double);
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
  std::optional<dense::ExpectedRows> expected;
  for (DenseResult& result : product.results) {
    cli::check_cancelled("spmm-dense");
    if (result.ran()) {
      std::fill(c.begin(), c.end(), kUnwritten);
      try {
        result.measurement = dense::multiply(result.request, product.a, product.b, c);
        if (options.check != CheckMode::none) compare_with_host(result, product, options, c, expected);
      } catch (const DeviceError& error) {
        result.refusal = error.what();
      } catch (const OutOfMemory& error) {
        result.refusal = error.what();
      }
    }
    if (expected) product.rows_checked = static_cast<std::uint32_t>(expected->rows.size());
    on_result(product, result, result.ran() ? std::span<const std::byte>(c) : std::span<const std::byte>());
  }
  return product;
}

}  // namespace spmm::tools
