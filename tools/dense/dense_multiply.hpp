// Dense products C[J, L] = A[J, K] * B[K, L]: the kernels of the classic studies of tiled multiplication, on host and
// device, with their times. All matrices row-major, any shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace spmm::dense {

/// Elements of A and B -> elements of C.
enum class Type {
  i32,  ///< int32 -> int32, sums wrap modulo 2^32
  f32,  ///< float -> float
  u16,  ///< uint16 -> uint32, exact sums saturated at 2^32 - 1
};

struct Shape {
  std::uint32_t rows = 0;   ///< J
  std::uint32_t inner = 0;  ///< K
  std::uint32_t cols = 0;   ///< L
};

/// A kernel of this build. Each has every type.
struct KernelInfo {
  std::string name;
  std::string what;
  bool on_device = true;
  std::vector<unsigned> tiles;  ///< tile widths to choose from, the default first; empty if there is none
};

struct Request {
  std::string kernel;
  Type type = Type::f32;
  unsigned tile = 0;  ///< tile width; 0 = the kernel's default; kernels without tile widths ignore it
  Shape shape;
  unsigned runs = 1;  ///< timed runs, after one that is not timed (device) or none (host)
};

/// What one CTA takes, and how many fit on a multiprocessor; zeros for the host.
struct Resources {
  unsigned threads_per_cta = 0;
  unsigned registers_per_thread = 0;
  std::size_t shared_bytes_per_cta = 0;
  unsigned ctas_per_multiprocessor = 0;
  double occupancy = 0;  ///< resident warps over the most a multiprocessor holds
};

struct Measurement {
  std::vector<double> run_ms;  ///< of the finished product; device: events around the kernels, operands resident
  Resources resources;
  std::string device;  ///< name of the GPU, or "host"
};

const char* type_name(Type type);
std::size_t input_element_bytes(Type type);
std::size_t output_element_bytes(Type type);

/// Kernels of this build: without CUDA host-naive alone.
const std::vector<KernelInfo>& kernels();

/// Errors: UsageError (this build has no such kernel).
const KernelInfo& find_kernel(const std::string& name);

/// Computes C and times it.
/// Shapes: a [rows, inner], b [inner, cols], c [rows, cols], row-major, host; sizes in bytes are checked.
/// Values: with an empty side C is all zeros, or empty, and takes no time. host-naive sums in order of the inner index
/// in the type's own arithmetic (f32: in float).
/// Errors: UsageError (unknown kernel, a tile width that it has not), ShapeError, DeviceError, OutOfMemory.
Measurement multiply(const Request& request, std::span<const std::byte> a, std::span<const std::byte> b,
                     std::span<std::byte> c);

// ---- dense_device.cpp; built without CUDA, dense_device_stub.cpp stands in

/// Kernels that run on the device; none in a build without CUDA.
std::vector<KernelInfo> device_kernels();

/// Runs a request that multiply() has checked: tile chosen, no side zero.
/// Errors: DeviceError without a usable device or where it lacks what the kernel needs, OutOfMemory.
Measurement multiply_on_device(const Request& request, std::span<const std::byte> a, std::span<const std::byte> b,
                               std::span<std::byte> c);

}  // namespace spmm::dense
