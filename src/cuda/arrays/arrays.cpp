// Arrays of a caller -> keys and elements; memory for a result.
#include "cuda/arrays/arrays.hpp"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "kernels/blocks/arrays.hpp"
#include "kernels/blocks/launch.hpp"

namespace spmm::cuda {
namespace {

/// What gathering many products has found, then reading both matrices.
struct ArraysFound {
  std::array<kernels::ArrayFindings, 2> of_products{};
  std::array<kernels::ArrayFindings, 2> of_matrices{};
};

/// Elements as uploading leaves them: those of B transposed. Values: not those of a pattern alone.
DeviceBuffer<std::uint16_t> read_values(const DeviceBsrView& view, bool is_b, std::uint32_t* max_element,
                                        DeviceMemory& memory) {
  const cudaStream_t stream = memory.stream().get();
  const std::uint64_t count = view.num_blocks * view.m * view.m;
  const auto* const elements = static_cast<const std::uint16_t*>(view.values);
  if (is_b && view.m > 1) {
    DeviceBuffer<std::uint16_t> values(memory, count, "elements");
    kernels::launch_transpose_blocks({.values = elements, .count = view.num_blocks}, nullptr, view.m, values.data(),
                                     max_element, stream);
    return values;
  }
  auto values = DeviceBuffer<std::uint16_t>::borrow(const_cast<std::uint16_t*>(elements), count);  // never written
  if (view.m > 1 && !is_aligned(view.values)) values = copy_of(values, memory, "elements");
  kernels::launch_max_element(values.data(), count, max_element, stream);
  return values;
}

/// Errors: FormatError that names the product.
void check_found(const ManyMatrices& many, const char* matrix, kernels::ArrayFindings found) {
  constexpr unsigned long long kNothing = kernels::ArrayFindings::kNothingBad;
  const bool is_row = found.bad_row != kNothing;
  if (!is_row && found.bad_index == kNothing) return;
  unsigned long long& place = is_row ? found.bad_row : found.bad_index;
  for (std::uint64_t x = 0; x < many.size(); ++x) {
    const DeviceBsrView view = many[x];
    const std::uint64_t count = is_row ? view.rows / view.m : view.num_blocks;
    if (place < count) return check_findings(view, text(matrix, ", product ", x), found);
    place -= count;
  }
}

}  // namespace

bool is_aligned(const void* values) {
  constexpr std::uintptr_t kAlignment = 16;
  return reinterpret_cast<std::uintptr_t>(values) % kAlignment == 0;
}

void check_findings(const DeviceBsrView& view, const std::string& name, const kernels::ArrayFindings& found) {
  if (found.bad_row != kernels::ArrayFindings::kNothingBad) {
    throw FormatError(text(name, ", indptr[", found.bad_row, "] and indptr[", found.bad_row + 1, "]"),
                      text("they fall, lie outside 0 to ", view.num_blocks, ", or do not begin with 0 and end with ",
                           view.num_blocks),
                      "pass indptr with rows / m + 1 numbers that ascend from 0 to the number of blocks");
  }
  if (found.bad_index != kernels::ArrayFindings::kNothingBad) {
    throw FormatError(text(name, ", indices[", found.bad_index, "]"),
                      text("the block column is not in 0 to ", view.cols / view.m - 1),
                      "pass block columns below cols / m");
  }
}

void check_stream(CUstream_st* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "stream");
  if (status == cudaStreamCaptureStatusNone) return;
  throw UsageError("DeviceCall::stream", "it is being captured, and the size of a result must be waited for",
                   "multiply before or after the capture");
}

void check_memory(const void* data, const std::string& name, const DeviceContext& context) {
  cudaPointerAttributes found{};
  ignore(cudaPointerGetAttributes(&found, data));
  if (found.type == cudaMemoryTypeDevice && found.device == context.device()) return;
  const std::string what = found.type == cudaMemoryTypeDevice ? text("is in the memory of device ", found.device)
                                                              : std::string("is no device memory");
  throw DeviceError(name, what,
                    text("pass arrays in the memory of device ", context.device(),
                         ", the engine's first, or name another one in EngineOptions::device"));
}

SortedOperands ArrayOperands::read(const MatrixHeader& header, StageEvents& events) {
  const Stream& stream = memory_.stream();
  stream.wait_for(arrays_.call.stream);
  SortedOperands parsed(header);
  const DeviceBuffer<ArraysFound> findings(memory_, 1, "findings");
  const ArraysFound nothing{};
  events.timed(Stage::build, stream, [&] {
    copy_async(findings.data(), &nothing, 1, stream);  // few pageable bytes: copied before the call returns
    auto* const found = reinterpret_cast<kernels::ArrayFindings*>(findings.data());  // of products, then of matrices
    std::array<kernels::ArraysView, 2> to_read;
    for (std::size_t x = 0; x < 2; ++x) {
      if (are_many()) gather(sides_[x], found + x);
      const DeviceBsrView& view = sides_[x].view;
      SortedRows& to = parsed.matrix(x == 1);
      to.keys = {memory_, view.num_blocks, "sort keys"};
      to_read[x] = {
          .indptr = view.indptr,
          .indices = view.indices,
          .values = wants_chains(view.type, arrays_.call) ? nullptr : static_cast<const std::uint16_t*>(view.values),
          .index_bytes = view.index_bytes,
          .num_rows = view.rows / view.m,
          .num_columns = view.cols / view.m,
          .num_blocks = view.num_blocks,
          .key_bits = parsed.key_bits,
          .keys = to.keys.data(),
          .findings = found + 2 + x};
      if (to_read[x].values != nullptr) {
        to.values = read_values(view, x == 1, &to_read[x].findings->max_element, memory_);
      }
    }
    kernels::launch_read_arrays(to_read[0], to_read[1], header.m, stream.get());
  });
  const ArraysFound found = fetch(findings.data(), stream);
  for (std::size_t x = 0; x < 2; ++x) check_found(sides_[x].many, sides_[x].name, found.of_products[x]);
  for (std::size_t x = 0; x < 2; ++x) {
    Side& side = sides_[x];
    const kernels::ArrayFindings& of_matrix = found.of_matrices[x];
    check_findings(side.view, side.name, of_matrix);
    SortedRows& to = parsed.matrix(x == 1);
    to.max_element = of_matrix.max_element;
    to.in_order = of_matrix.is_unsorted == 0;
    to.has_zeros = of_matrix.has_zeros != 0;
    side.indptr = {};
    side.indices = {};
    if (x == 1 && header.m > 1 && to.values.data() != nullptr) side.values = {};  // there is a transposed copy
  }
  return parsed;
}

std::uint64_t count_saturated(ElementType type, const void* c, std::uint64_t count, DeviceMemory& memory) {
  if (type != ElementType::u16 || count == 0) return 0;
  const DeviceBuffer<unsigned long long> found(memory, 1, "count");
  const cudaStream_t stream = memory.stream().get();
  check(cudaMemsetAsync(found.data(), 0, sizeof(unsigned long long), stream), "clear");
  kernels::launch_count_saturated(static_cast<const std::uint32_t*>(c), count, found.data(), stream);
  return fetch(found.data(), memory.stream());
}

std::shared_ptr<std::byte> allocate_result(const DeviceCall& call, DeviceMemory& memory, std::uint64_t bytes,
                                           const char* what) {
  if (bytes == 0) return nullptr;
  const DeviceAllocator& allocator = call.allocator;
  CUstream_st* const to = call.stream;
  if (!allocator.allocate) {
    const std::shared_ptr<DeviceContext> context = memory.context().shared_from_this();
    if (bytes > memory.free_bytes()) {
      throw OutOfMemory(text("device memory for ", what),
                        text("need ", human_bytes(bytes), " more than the limit leaves"),
                        "raise EngineOptions::memory_limit_bytes");
    }
    void* const data = memory.context().allocate(bytes, memory.stream().get(), what);
    return {static_cast<std::byte*>(data), [context, to](std::byte* mine) {
              try {
                const DeviceGuard guard(context->device());
                context->release(mine, to);
              } catch (...) {  // the device is gone, and its memory with it
              }
            }};
  }
  void* const data = allocate_by(allocator, bytes, to, what);
  memory.stream().wait_for(to);  // the caller's stream may have to wait for the memory
  return {static_cast<std::byte*>(data), [release = allocator.release, to](std::byte* mine) {
            if (release) release(mine, to);
          }};
}

}  // namespace spmm::cuda
