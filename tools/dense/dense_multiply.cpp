// The dense products' catalogue and door: checks a request and hands it to the host or the device.
#include "tools/dense/dense_multiply.hpp"

#include <algorithm>
#include <chrono>

#include "base/text.hpp"
#include "spmm/error.hpp"
#include "tools/dense/dense_device.hpp"
#include "tools/dense/dense_elements.hpp"
#include "tools/dense/dense_host.hpp"

namespace spmm::dense {
namespace {

constexpr std::uint32_t kMaxByteInner = (1u << 17) - 1;  // 2^17 * 128 * 128 leaves 32 bits

const KernelInfo& find_kernel(const std::string& name) {
  std::string names;
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.name == name) return kernel;
    names += (names.empty() ? "" : ", ") + kernel.name;
  }
  throw UsageError("dense kernel", text("this build has no kernel '", name, "'"), "use one of: " + names);
}

/// The tile width of a run; 0 where the kernel has none.
unsigned chosen_tile(const KernelInfo& kernel, unsigned wanted) {
  if (wanted == 0) return kernel.tiles.empty() ? 0 : kernel.tiles.front();
  if (std::find(kernel.tiles.begin(), kernel.tiles.end(), wanted) != kernel.tiles.end()) return wanted;
  std::string widths;
  for (const unsigned tile : kernel.tiles) widths += text(widths.empty() ? "" : ", ", tile);
  throw UsageError("dense kernel " + kernel.name,
                   text("tile width ", wanted, " found, ", widths.empty() ? "none" : widths, " expected"),
                   "leave the tile width out or choose one of the kernel's");
}

void check_type(const KernelInfo& kernel, Type type) {
  if (std::find(kernel.types.begin(), kernel.types.end(), type) != kernel.types.end()) return;
  std::string types;
  for (const Type has : kernel.types) types += (types.empty() ? "" : ", ") + std::string(type_name(has));
  throw UsageError("dense kernel " + kernel.name, text("type ", type_name(type), " found, ", types, " expected"),
                   "use one of the kernel's types or another kernel");
}

void check_size(const char* name, std::uint64_t rows, std::uint64_t columns, std::size_t element, std::size_t found) {
  const std::uint64_t elements = rows * columns;  // two 32-bit sides
  if (elements <= UINT64_MAX / element && elements * element == found) return;
  throw ShapeError(text("matrix ", name),
                   text(found, " bytes found, ", rows, " x ", columns, " elements of ", element, " bytes expected"),
                   "give every element of the matrix");
}

double elapsed_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

Measurement multiply_on_host(const Request& request, std::span<const std::byte> a, std::span<const std::byte> b,
                             std::span<std::byte> c) {
  Measurement measurement{.run_ms = {}, .resources = {}, .device = "host"};
  for (unsigned run = 0; run < std::max(1u, request.runs); ++run) {
    const auto start = std::chrono::steady_clock::now();
    multiply_host_naive(request.type, request.shape, a, b, c);
    if (run < request.runs) measurement.run_ms.push_back(elapsed_ms(start));
  }
  return measurement;
}

}  // namespace

const char* type_name(Type type) {
  switch (type) {
    case Type::i32:
      return "i32";
    case Type::f32:
      return "f32";
    case Type::u16:
      return "u16";
    case Type::s8:
      break;
  }
  return "s8";
}

std::size_t input_element_bytes(Type type) {
  return for_elements(type, []<class E>(E) { return sizeof(typename E::In); });
}

std::size_t output_element_bytes(Type type) {
  return for_elements(type, []<class E>(E) { return sizeof(typename E::Out); });
}

const std::vector<KernelInfo>& kernels() {
  static const std::vector<KernelInfo> kAll = [] {
    std::vector<KernelInfo> all = {{.name = "host-naive",
                                    .what = "three loops on one core",
                                    .on_device = false,
                                    .types = {Type::i32, Type::f32, Type::u16, Type::s8},
                                    .tiles = {}}};
    for (KernelInfo& kernel : device_kernels()) all.push_back(std::move(kernel));
    return all;
  }();
  return kAll;
}

Measurement multiply(const Request& request, std::span<const std::byte> a, std::span<const std::byte> b,
                     std::span<std::byte> c) {
  const KernelInfo& kernel = find_kernel(request.kernel);
  const Shape shape = request.shape;
  check_type(kernel, request.type);
  Request chosen = request;
  chosen.tile = chosen_tile(kernel, request.tile);
  check_size("A", shape.rows, shape.inner, input_element_bytes(request.type), a.size());
  check_size("B", shape.inner, shape.cols, input_element_bytes(request.type), b.size());
  check_size("C", shape.rows, shape.cols, output_element_bytes(request.type), c.size());
  if (request.type == Type::s8 && shape.inner > kMaxByteInner) {
    throw ShapeError("type s8", text("inner side ", shape.inner, " found, at most ", kMaxByteInner, " expected"),
                     "use i32, whose sums wrap");
  }
  if (a.empty() || b.empty()) {  // sums without terms
    std::fill(c.begin(), c.end(), std::byte{0});
    return {.run_ms = std::vector<double>(request.runs, 0.0), .resources = {}, .device = "host"};
  }
  return kernel.on_device ? multiply_on_device(chosen, a, b, c) : multiply_on_host(chosen, a, b, c);
}

}  // namespace spmm::dense
