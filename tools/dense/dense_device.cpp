// Device runs of dense products: operands uploaded, one run that is not timed, runs between events, C downloaded.
#include "tools/dense/dense_device.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cuda/backend.hpp"
#include "kernels/dense/launch.hpp"
#include "kernels/tuning.hpp"
#include "tools/dense/dense_library.hpp"
#include "tools/dense/dense_operands.hpp"

namespace spmm::dense {
namespace {

using cuda::DeviceBuffer;

kernels::DenseShape kernel_shape(Shape shape) {
  return {.rows = shape.rows, .inner = shape.inner, .cols = shape.cols};
}

kernels::DenseType kernel_type(Type type) {
  if (type == Type::i32) return kernels::DenseType::i32;
  return type == Type::f32 ? kernels::DenseType::f32 : kernels::DenseType::u16;
}

kernels::DenseLaunch make_launch(const Request& request) {
  const kernels::DenseType type = kernel_type(request.type);
  const kernels::DenseShape shape = kernel_shape(request.shape);
  if (request.kernel == "global") return kernels::dense_global(type, shape, request.tile);
  if (request.kernel == "tiled") return kernels::dense_tiled(type, shape, request.tile);
  if (request.kernel == "tiled-two") return kernels::dense_tiled_two(type, shape, request.tile);
  return kernels::dense_register(type, shape);
}

Resources resources_of(const kernels::DenseLaunch& launch) {
  const kernels::DenseResources taken = kernels::dense_resources(launch);
  return {.threads_per_cta = taken.threads_per_cta,
          .registers_per_thread = taken.registers_per_thread,
          .shared_bytes_per_cta = taken.shared_bytes_per_cta,
          .ctas_per_multiprocessor = taken.ctas_per_multiprocessor,
          .occupancy = taken.occupancy};
}

/// One of the kernels on plain row-major operands.
class PlainProduct : public Product {
 public:
  PlainProduct(const kernels::DenseLaunch& launch, const ProductInput& input)
      : launch_(launch),
        shape_(kernel_shape(input.shape)),
        stream_(input.stream),
        a_(upload(input, input.a, "A")),
        b_(upload(input, input.b, "B")),
        c_(input.memory, std::uint64_t{shape_.rows} * shape_.cols * output_element_bytes(input.type), "C") {}

  void run() override { launch_dense(launch_, shape_, a_.data(), b_.data(), c_.data(), stream_.get()); }
  void download(std::span<std::byte> c) override { cuda::copy_async(c.data(), c_.data(), c.size(), stream_); }
  [[nodiscard]] Resources resources() const override { return resources_of(launch_); }

 private:
  kernels::DenseLaunch launch_;
  kernels::DenseShape shape_;
  const cuda::Stream& stream_;
  DeviceBuffer<std::byte> a_;
  DeviceBuffer<std::byte> b_;
  DeviceBuffer<std::byte> c_;
};

std::uint32_t largest_u16(std::span<const std::byte> elements) {
  const std::span all(reinterpret_cast<const std::uint16_t*>(elements.data()), elements.size() / 2);
  return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
}

/// Byte planes made in every run, then the tensor-core kernel of the block-sparse product with blocks of one element.
class TensorProduct : public Product {
 public:
  explicit TensorProduct(const ProductInput& input)
      : shape_(input.shape),
        stream_(input.stream),
        largest_(std::max(largest_u16(input.a), largest_u16(input.b))),
        num_planes_(largest_ <= kernels::kMaxSummedElement ? 3 : 2),
        a_(upload(input, input.a, "A")),
        b_(upload(input, input.b, "B")),
        a_planes_(input.memory, plane_bytes(shape_.rows), "byte planes of A"),
        b_planes_(input.memory, plane_bytes(shape_.cols), "byte planes of B"),
        c_(input.memory, std::uint64_t{shape_.rows} * shape_.cols, "C") {}

  void run() override {
    const kernels::BytePlanes a = planes(a_planes_, shape_.rows);
    const kernels::BytePlanes b = planes(b_planes_, shape_.cols);
    const kernels::DenseTarget target{.num_rows = shape_.rows,
                                      .num_columns = shape_.cols,
                                      .m = 1,
                                      .num_block_columns = shape_.cols,
                                      .results = {.values = c_.data(), .non_zero = nullptr}};
    kernels::launch_split_rows(reinterpret_cast<const std::uint16_t*>(a_.data()), shape_.rows, shape_.inner, a,
                               stream_.get());
    kernels::launch_split_columns(reinterpret_cast<const std::uint16_t*>(b_.data()), shape_.inner, shape_.cols, b,
                                  stream_.get());
    kernels::launch_mul_dense_tensor(a, b, target, {}, stream_.get());
  }

  void download(std::span<std::byte> c) override {
    cuda::copy_async(c.data(), reinterpret_cast<const std::byte*>(c_.data()), c.size(), stream_);
  }
  [[nodiscard]] Resources resources() const override { return resources_of(kernels::dense_tensor_launch()); }

 private:
  [[nodiscard]] std::uint64_t plane_bytes(std::uint64_t lines) const {
    return kernels::dense_plane_rows(lines, num_planes_) * kernels::dense_plane_stride(shape_.inner);
  }
  [[nodiscard]] kernels::BytePlanes planes(const DeviceBuffer<std::uint8_t>& bytes, std::uint64_t lines) const {
    return {.data = bytes.data(),
            .num_rows = kernels::dense_plane_rows(lines, num_planes_),
            .stride_bytes = kernels::dense_plane_stride(shape_.inner),
            .num_planes = num_planes_,
            .shift = num_planes_ == 3 ? kernels::half_plane_bits(largest_) : 8};
  }

  Shape shape_;
  const cuda::Stream& stream_;
  std::uint32_t largest_;
  std::uint32_t num_planes_;
  DeviceBuffer<std::byte> a_;
  DeviceBuffer<std::byte> b_;
  DeviceBuffer<std::uint8_t> a_planes_;
  DeviceBuffer<std::uint8_t> b_planes_;
  DeviceBuffer<std::uint32_t> c_;
};

std::unique_ptr<Product> make_product(const Request& request, const ProductInput& input) {
  if (request.kernel == "library") return make_library_product(input);
  if (request.kernel == "tensor") return std::make_unique<TensorProduct>(input);
  return std::make_unique<PlainProduct>(make_launch(request), input);
}

/// One run that is not timed, then the timed ones. Operands that would stay in L2 are driven out of it between runs.
std::vector<double> time_runs(Product& product, unsigned num_runs, std::uint64_t operand_bytes, int device,
                              const ProductInput& input) {
  product.run();
  input.stream.synchronize();
  if (num_runs == 0) return {};
  int l2_bytes = 0;
  check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "device properties");
  const auto l2 = static_cast<std::uint64_t>(std::max(0, l2_bytes));
  const DeviceBuffer<std::byte> scratch(input.memory, operand_bytes <= l2 ? 2 * l2 : 0, "scratch");
  const cuda::Event start(true);
  const cuda::Event stop(true);
  std::vector<double> run_ms;
  for (unsigned run = 0; run < num_runs; ++run) {
    if (scratch.size() != 0) {
      check(cudaMemsetAsync(scratch.data(), static_cast<int>(run % 256), scratch.size(), input.stream.get()),
            "clear L2");
    }
    start.record(input.stream);
    product.run();
    stop.record(input.stream);
    stop.synchronize();
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start.get(), stop.get()), "event");
    run_ms.push_back(static_cast<double>(ms));
  }
  return run_ms;
}

std::shared_ptr<cuda::DeviceContext> device_for(const Request& request) {
  std::string why_not;
  std::shared_ptr<cuda::DeviceContext> context = cuda::find_device(-1, why_not);
  const std::string where = "kernel " + request.kernel;
  if (!context) throw DeviceError(where, why_not, "check nvidia-smi, or use host-naive");
  const cuda::DeviceInfo device = cuda::describe(*context);
  if (request.kernel == "tensor" && !device.has_dense_tensor) {
    throw DeviceError(where, device.name + " has no warpgroup matrix products", "use another kernel");
  }
  return context;
}

}  // namespace

std::vector<KernelInfo> device_kernels() {
  const std::vector<Type> types = {Type::i32, Type::f32, Type::u16};
  const std::vector<unsigned> tiles = {32, 16, 8};
  std::vector<KernelInfo> all = {
      {.name = "global", .what = "one thread per element, operands from global memory", .types = types, .tiles = tiles},
      {.name = "tiled", .what = "tiles in shared memory, one element per thread", .types = types, .tiles = tiles},
      {.name = "tiled-two",
       .what = "the same tile of A against two tiles of B: two elements per thread",
       .types = types,
       .tiles = tiles},
      {.name = "register",
       .what = "8 x 8 elements per thread in registers, asynchronous copies",
       .types = types,
       .tiles = {}},
  };
  if (const std::vector<Type> library = library_types(); !library.empty()) {
    all.push_back({.name = "library", .what = "cuBLAS, cuBLASLt", .types = library, .tiles = {}});
  }
  all.push_back({.name = "tensor",
                 .what = "exact on integer tensor cores through byte planes (Hopper)",
                 .types = {Type::u16},
                 .tiles = {}});
  return all;
}

Measurement multiply_on_device(const Request& request, std::span<const std::byte> a, std::span<const std::byte> b,
                               std::span<std::byte> c) {
  const std::shared_ptr<cuda::DeviceContext> context = device_for(request);
  const cuda::DeviceGuard guard(context->device());
  const std::string name = context->properties().name;
  const cuda::Stream stream(*context);  // waits for what is on its way when it goes
  cuda::DeviceMemory memory(stream, UINT64_MAX);
  const ProductInput input{
      .type = request.type, .shape = request.shape, .a = a, .b = b, .memory = memory, .stream = stream};
  try {
    const std::unique_ptr<Product> product = make_product(request, input);
    Measurement measurement{.run_ms = time_runs(*product, request.runs, a.size() + b.size(), context->device(), input),
                            .resources = product->resources(),
                            .device = name};
    product->download(c);
    stream.synchronize();
    return measurement;
  } catch (const OutOfMemory&) {
    throw OutOfMemory("kernel " + request.kernel,
                      text("operands and result of ", request.shape.rows, " x ", request.shape.inner, " x ",
                           request.shape.cols, " do not fit the memory of ", name),
                      "multiply smaller matrices, or free memory on the device");
  }
}

}  // namespace spmm::dense
