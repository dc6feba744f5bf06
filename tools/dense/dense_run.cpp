#include "tools/dense/dense_run.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

using dense::KernelInfo;
using dense::Shape;

constexpr auto kUnwritten = std::byte{0xA5};  // what C holds before a kernel runs

/// J * K * L; the largest number where that does not fit.
std::uint64_t multiply_adds(Shape shape) {
  std::uint64_t product = std::uint64_t{shape.rows} * shape.inner;
  return __builtin_mul_overflow(product, std::uint64_t{shape.cols}, &product) ? UINT64_MAX : product;
}

std::uint64_t check_budget(CheckMode mode) {
  return mode == CheckMode::full ? UINT64_MAX : dense::kCheckBudget;
}

bool has_type(const KernelInfo& kernel, dense::Type type) {
  return std::find(kernel.types.begin(), kernel.types.end(), type) != kernel.types.end();
}

const KernelInfo& find_kernel(const std::string& name, dense::Type type) {
  std::string list = "all";
  for (const KernelInfo& kernel : dense::kernels()) {
    list += ", " + kernel.name;
    if (kernel.name != name) continue;
    if (has_type(kernel, type)) return kernel;
    std::string types;
    for (const dense::Type one : kernel.types) types += (types.empty() ? "" : ", ") + std::string(type_name(one));
    throw UsageError("--kernel", text(name, " does not have the type ", type_name(type)), "give --type " + types);
  }
  throw UsageError("--kernel", "this build has no kernel \"" + name + "\"", "use some of: " + list);
}

std::string widths_text(const KernelInfo& kernel) {
  std::string list;
  for (const unsigned width : kernel.tiles) list += text(list.empty() ? "" : ", ", width);
  return kernel.tiles.empty() ? "has no tile widths to choose from" : "has the tile widths " + list;
}

/// The kernel as often as the tile choice asks for.
void plan_kernel(const KernelInfo& kernel, const DenseOptions& options, Shape shape, bool is_alone,
                 std::vector<DenseResult>& out) {
  DenseResult result;
  result.request = {
      .kernel = kernel.name, .type = options.type, .tile = options.tile.width, .shape = shape, .runs = options.runs};
  if (options.tile.every && !kernel.tiles.empty()) {
    for (const unsigned width : kernel.tiles) {
      result.request.tile = width;
      out.push_back(result);
    }
    return;
  }
  const bool has_width = std::find(kernel.tiles.begin(), kernel.tiles.end(), options.tile.width) != kernel.tiles.end();
  if (options.tile.width != 0 && !has_width) {
    if (is_alone) {
      throw UsageError("--tile", text(kernel.name, " ", widths_text(kernel)), "give one of them or leave --tile out");
    }
    // Without a choice it runs as ever; with another choice it would be compared with the wrong thing.
    if (!kernel.tiles.empty()) result.refusal = widths_text(kernel);
  }
  const bool is_plain = options.tile.width == 0 || kernel.tiles.empty();
  if (is_plain) result.request.tile = kernel.tiles.empty() ? 0 : kernel.tiles.front();
  out.push_back(result);
}

/// Runs one planned kernel into c.
void run_kernel(DenseResult& result, const DenseMatrix& a, const DenseMatrix& b, bool is_alone,
                std::vector<std::byte>& c) {
  std::fill(c.begin(), c.end(), kUnwritten);
  const auto refused = [&](const Error& error) {
    if (is_alone) throw;
    result.refusal = error.what();
  };
  try {
    result.measurement = dense::multiply(result.request, a.elements, b.elements, c);
  } catch (const DeviceError& error) {
    refused(error);
  } catch (const OutOfMemory& error) {
    refused(error);
  }
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
  return median > 0 ? 2 * static_cast<double>(multiply_adds(request.shape)) * 1e-6 / median : 0;
}

std::vector<DenseResult> plan_results(const DenseOptions& options, Shape shape) {
  std::vector<DenseResult> results;
  const bool is_alone = options.kernels.size() == 1 && options.kernels.front() != "all";
  for (const std::string& name : options.kernels) {
    if (name != "all") {
      plan_kernel(find_kernel(name, options.type), options, shape, is_alone, results);
      continue;
    }
    for (const KernelInfo& kernel : dense::kernels()) {
      if (!has_type(kernel, options.type)) continue;
      plan_kernel(kernel, options, shape, false, results);
      if (kernel.on_device || multiply_adds(shape) <= kHostNaiveLimit) continue;
      results.back().refusal = "slow on one core for this shape; name it to run it";
    }
  }
  return results;
}

std::uint64_t checked_memory(const DenseOptions& options, Shape shape, std::uint64_t available_bytes) {
  const std::uint64_t inputs = dense::input_element_bytes(options.type);
  const std::uint64_t results = dense::output_element_bytes(options.type);
  __extension__ using Wide = unsigned __int128;
  Wide need = Wide{shape.rows} * shape.inner * inputs + Wide{shape.inner} * shape.cols * inputs +
              Wide{shape.rows} * shape.cols * results;
  if (options.check != CheckMode::none) {
    const std::uint64_t num_rows = dense::num_checked_rows(shape, check_budget(options.check));
    need += Wide{num_rows} * shape.cols * sizeof(double);
  }
  if (need <= available_bytes) return static_cast<std::uint64_t>(need);
  const auto shown = static_cast<std::uint64_t>(std::min<Wide>(need, UINT64_MAX));
  throw OutOfMemory(text("shape ", shape.rows, "x", shape.inner, "x", shape.cols),
                    text("needs ", human_bytes(shown), " of host memory, ", human_bytes(available_bytes), " is free"),
                    "give a smaller shape, or --check sample or none");
}

DenseProduct run_product(const DenseMatrix& a, const DenseMatrix& b, const DenseOptions& options,
                         const ResultFn& on_result) {
  if (a.cols != b.rows) {
    throw ShapeError("A and B", text("A is ", a.rows, " x ", a.cols, " and B is ", b.rows, " x ", b.cols),
                     "give B as many rows as A has columns");
  }
  DenseProduct product{.shape = {.rows = a.rows, .inner = a.cols, .cols = b.cols}, .rows_checked = 0, .results = {}};
  const Shape shape = product.shape;
  product.results = plan_results(options, shape);
  std::vector<std::byte> c(std::size_t{shape.rows} * shape.cols * dense::output_element_bytes(options.type));
  std::optional<dense::ExpectedRows> expected;
  const bool is_alone = product.results.size() == 1;
  for (DenseResult& result : product.results) {
    cli::check_cancelled("spmm-dense");
    if (result.ran()) run_kernel(result, a, b, is_alone, c);
    if (result.ran() && options.check != CheckMode::none) {
      if (!expected) {
        auto rows = dense::choose_rows(shape, options.seed, check_budget(options.check));
        expected =
            dense::expected_rows(options.type, shape, a.elements, b.elements, std::move(rows), options.num_threads);
        product.rows_checked = static_cast<std::uint32_t>(expected->rows.size());
      }
      result.threshold = options.threshold.value_or(dense::rounding_threshold(options.type, shape, *expected));
      result.comparison = dense::compare_rows(options.type, shape, *expected, c, result.threshold, options.num_threads);
    }
    on_result(result, result.ran() ? std::span<const std::byte>(c) : std::span<const std::byte>());
  }
  return product;
}

}  // namespace spmm::tools
