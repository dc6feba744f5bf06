// What is checked of arrays in device memory before a device is started.
#include "engine/device_product.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/text.hpp"
#include "spmm/types.hpp"

namespace spmm {
namespace {

void check_sides(const DeviceBsrView& view, const std::string& name) {
  if (view.m == 0 || view.m > kMaxBlockDim) {
    throw FormatError(text(name, ", m"), text("found ", view.m, ", expected 1 to ", kMaxBlockDim),
                      "pass blocks of such a side");
  }
  for (const auto& [side, what] : {std::pair{view.rows, "rows"}, {view.cols, "cols"}}) {
    if (side == 0 || side > 0xFFFF'FFFFu || side % view.m != 0) {
      throw FormatError(text(name, ", ", what),
                        text("found ", side, ", expected a multiple of m = ", view.m, " from ", view.m, " to 2^32 - 1"),
                        "pad the matrix");
    }
  }
  if (view.index_bytes != 4 && view.index_bytes != 8) {
    throw FormatError(text(name, ", index_bytes"), text("found ", view.index_bytes, ", expected 4 or 8"),
                      "pass indices of 32 or 64 bits");
  }
  if (view.index_bytes == 4 && std::max(view.rows, view.cols) / view.m > 0x7FFF'FFFFu) {
    throw FormatError(text(name, ", index_bytes"), "4 bytes do not number 2^31 block rows or columns",
                      "pass indices of 64 bits");
  }
  const std::uint64_t places = (view.rows / view.m) * (view.cols / view.m);
  if (view.num_blocks > std::min<std::uint64_t>(places, 0xFFFF'FFFFu)) {
    throw FormatError(text(name, ", num_blocks"),
                      text("found ", view.num_blocks, ", the matrix has ", places, " places"),
                      "pass each block once, 2^32 - 1 at most");
  }
}

/// Side of the square in which both are multiplied. Errors: ShapeError, FormatError.
std::uint32_t common_side(const DeviceBsrView& a, const DeviceBsrView& b) {
  check_sides(a, "matrix A");
  check_sides(b, "matrix B");
  if (a.m != b.m || a.cols != b.rows || a.index_bytes != b.index_bytes) {
    throw ShapeError("matrix A and matrix B",
                     text(a.rows, " x ", a.cols, ", m = ", a.m, ", indices of ", a.index_bytes, " bytes against ",
                          b.rows, " x ", b.cols, ", m = ", b.m, ", ", b.index_bytes, " bytes"),
                     "A has as many columns as B has rows, both the same m and indices");
  }
  return static_cast<std::uint32_t>(std::max({a.rows, a.cols, b.cols}));
}

ProductOptions on_device(const ProductOptions& options, const DeviceCall& call) {
  std::string why_not;
  if (cuda::num_devices(why_not) == 0) {
    throw DeviceError("arrays in device memory", why_not, "check nvidia-smi, or pass arrays in host memory");
  }
  cuda::check_stream(call.stream);
  const auto refuse = [](bool is_set, const char* option, const char* hint) {
    if (is_set) throw UsageError(text("ProductOptions::", option), "does not go with arrays in device memory", hint);
  };
  refuse(options.backend == Backend::cpu, "backend = cpu", "leave it out");
  refuse(options.transpose_a || options.transpose_b, "transpose_a, transpose_b", "transpose the arrays on the device");
  refuse(options.verify_blocks != 0 || options.verify_full, "verify_blocks, verify_full",
         "copy the matrices to the host, or write files, to check a result");
  ProductOptions on_cuda = options;
  on_cuda.backend = Backend::cuda;
  on_cuda.keep_a = on_cuda.keep_b = false;
  on_cuda.num_parts = 0;
  return on_cuda;
}

}  // namespace

DeviceSource::DeviceSource(const DeviceBsrView& view, std::uint32_t n, std::string name)
    : header_{.n = n, .m = view.m, .num_blocks = static_cast<std::uint32_t>(view.num_blocks)}, name_(std::move(name)) {}

void DeviceSource::read(std::uint64_t, std::uint64_t, std::byte*) const {
  throw OutOfMemory(name_,
                    "the product does not fit the memory of the device at once, and arrays are not cut into slabs",
                    "raise EngineOptions::memory_limit_bytes, free device memory, or multiply files or host memory");
}

std::string DeviceSource::place(std::uint64_t record) const {
  return text("indices[", record, "]");
}

void DeviceSink::append(std::span<const std::byte>, std::function<void()>) {
  throw std::logic_error("records of a result that stays on the device");
}

DeviceProduct::DeviceProduct(const DeviceBsrView& a, const DeviceBsrView& b, const DeviceCall& call,
                             const ProductOptions& options)
    : n_(common_side(a, b)),
      a_(a, n_, "matrix A"),
      b_(b, n_, "matrix B"),
      options_(on_device(options, call)),
      result_{.rows = a.rows, .cols = b.cols, .m = a.m, .index_bytes = a.index_bytes},
      arrays_{.a = a, .b = b, .call = call, .out = &result_} {}

void DeviceProduct::set_pattern() {
  std::string& kernel = options_.kernel;
  if (kernel == "auto") kernel = "rows";
  if (kernel != "rows" && kernel != "row-spread" && kernel != "pair-list") {
    throw UsageError("ProductOptions::kernel", text("kernel '", kernel, "' multiplies no patterns"),
                     "use auto, rows, row-spread or pair-list");
  }
  arrays_.is_pattern = true;
}

}  // namespace spmm
