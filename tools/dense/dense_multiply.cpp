#include "tools/dense/dense_multiply.hpp"

#include <algorithm>
#include <chrono>

#include "base/text.hpp"
#include "spmm/error.hpp"
#include "tools/dense/dense_elements.hpp"

namespace spmm::dense {
namespace {

void check_size(const char* name, std::uint64_t rows, std::uint64_t columns, std::size_t element, std::size_t found) {
  const std::uint64_t elements = rows * columns;  // two 32-bit sides
  if (elements <= UINT64_MAX / element && elements * element == found) return;
  throw ShapeError(text("matrix ", name),
                   text(found, " bytes found, ", rows, " x ", columns, " elements of ", element, " bytes expected"),
                   "give every element of the matrix");
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
  const Shape shape = request.shape;
  Request chosen = request;
  if (kernel.tiles.empty()) {
    chosen.tile = 0;
  } else if (request.tile == 0) {
    chosen.tile = kernel.tiles.front();
  } else if (std::find(kernel.tiles.begin(), kernel.tiles.end(), request.tile) == kernel.tiles.end()) {
    throw UsageError("kernel " + kernel.name, text("has no tiles of width ", request.tile), "see spmm-dense --list");
  }
  check_size("A", shape.rows, shape.inner, input_element_bytes(request.type), a.size());
  check_size("B", shape.inner, shape.cols, input_element_bytes(request.type), b.size());
  check_size("C", shape.rows, shape.cols, output_element_bytes(request.type), c.size());
  if (a.empty() || b.empty()) {  // sums without terms
    std::fill(c.begin(), c.end(), std::byte{0});
    return {.run_ms = std::vector<double>(request.runs, 0.0), .resources = {}, .device = "host"};
  }
  return kernel.on_device ? multiply_on_device(chosen, a, b, c) : multiply_on_host(chosen, a, b, c);
}

}  // namespace spmm::dense
