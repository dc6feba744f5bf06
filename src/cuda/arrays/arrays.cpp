// Arrays of a caller -> keys and elements; packed panels -> arrays of the result.
#include "cuda/arrays/arrays.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/records/errors.hpp"
#include "base/records/saturated_count.hpp"
#include "base/text.hpp"
#include "cuda/arrays/gathered.hpp"
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

/// C blocks, about: of groups of runs, since each takes the host 60 ns, and the device waits.
double expected_c_blocks(const plan::Statistics& statistics) {
  constexpr std::size_t kGroups = 256;
  const plan::RowPairs& pairs = statistics.row_pairs;
  const double columns = statistics.c_columns();
  const double b_row_blocks =
      static_cast<double>(statistics.b.num_blocks) / static_cast<double>(std::max<std::uint64_t>(1, statistics.b_rows));
  // Of a row with `row_pairs` pairs, if B's blocks lie anywhere in the columns.
  const auto expected = [&](double row_pairs) {
    if (b_row_blocks >= columns) return std::min(columns, row_pairs);
    const double blocks = columns * -std::expm1(row_pairs / b_row_blocks * std::log1p(-b_row_blocks / columns));
    return std::min(blocks, row_pairs);
  };
  const std::size_t num_runs = pairs.num_runs();
  const std::size_t group = (num_runs + kGroups - 1) / kGroups;
  double sum = 0;
  for (std::size_t run = 0; run < num_runs; run += group) {
    const std::size_t end = std::min(run + group, num_runs);
    const double num_rows = pairs.first_row(end) - pairs.first_row(run);
    sum += num_rows * expected(static_cast<double>(pairs.offsets[end] - pairs.offsets[run]) / num_rows);
  }
  return sum;
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

void check_arrays(const DeviceArrays& arrays, const DeviceContext& context) {
  const DeviceGuard guard(context.device());
  const auto check_array = [&](const std::string& name, const void* data, std::uint64_t count) {
    if (count != 0) check_memory(data, name, context);
  };
  for (const auto& [view, name] : {std::pair{&arrays.a, std::string("matrix A")}, {&arrays.b, "matrix B"}}) {
    check_array(name + ", indptr", view->indptr, 1);
    check_array(name + ", indices", view->indices, view->num_blocks);
    if (view->values != nullptr || !arrays.is_pattern) check_array(name + ", values", view->values, view->num_blocks);
  }
  const std::optional<DeviceBsrView>& c = arrays.call.c;
  if (!c) return;
  check_array("matrix C, indptr", c->indptr, 1);
  check_array("matrix C, indices", c->indices, c->num_blocks);
  if (arrays.call.beta != nullptr) check_array("matrix C, values", c->values, c->num_blocks);
}

void use_callers_memory(const DeviceArrays& arrays, DeviceMemory& memory) {
  if (arrays.call.allocator.serves_workspace) memory.take_from(arrays.call.allocator);
}

ParsedOperands read_arrays(const DeviceArrays& arrays, GatheredProducts* many, const MatrixHeader& header,
                           const UploadTarget& target) {
  DeviceMemory& memory = target.memory;
  const Stream& stream = memory.stream();
  const Event called;
  check(cudaEventRecord(called.get(), arrays.call.stream), "event");
  stream.wait_for(called);
  ParsedOperands parsed;
  parsed.key_bits = key_bits_of(header.blocks_per_side());
  const DeviceBuffer<ArraysFound> findings(memory, 1, "findings");
  const ArraysFound nothing{};
  std::array<DeviceBsrView, 2> views{arrays.a, arrays.b};
  target.events.timed(Stage::build, stream, [&] {
    copy_async(findings.data(), &nothing, 1, stream);  // few pageable bytes: copied before the call returns
    auto* const found = reinterpret_cast<kernels::ArrayFindings*>(findings.data());  // of products, then of matrices
    if (many != nullptr) views = many->gather(found);
    std::array<kernels::ArraysView, 2> to_read;
    for (std::size_t x = 0; x < 2; ++x) {
      const DeviceBsrView& view = views[x];
      ParsedMatrix& to = x == 0 ? parsed.a : parsed.b;
      to.keys = {memory, view.num_blocks, "sort keys"};
      to_read[x] = {.indptr = view.indptr,
                    .indices = view.indices,
                    .values = static_cast<const std::uint16_t*>(view.values),
                    .index_bytes = view.index_bytes,
                    .num_rows = view.rows / view.m,
                    .num_columns = view.cols / view.m,
                    .num_blocks = view.num_blocks,
                    .key_bits = parsed.key_bits,
                    .keys = to.keys.data(),
                    .findings = found + 2 + x};
      if (view.values != nullptr) to.values = read_values(view, x == 1, &to_read[x].findings->max_element, memory);
    }
    kernels::launch_read_arrays(to_read[0], to_read[1], header.m, stream.get());
  });
  const ArraysFound found = fetch(findings.data(), stream);
  if (many != nullptr) many->check_findings(found.of_products);
  for (std::size_t x = 0; x < 2; ++x) {
    const kernels::ArrayFindings& of_matrix = found.of_matrices[x];
    check_findings(views[x], x == 0 ? "matrix A" : "matrix B", of_matrix);
    ParsedMatrix& to = x == 0 ? parsed.a : parsed.b;
    to.max_element = of_matrix.max_element;
    to.is_sorted = of_matrix.is_unsorted == 0;
    to.has_zeros = of_matrix.has_zeros != 0;
  }
  return parsed;
}

ArrayCollector::ArrayCollector(const DeviceArrays& arrays, DeviceMemory& memory, StageEvents& events)
    : arrays_(arrays), memory_(memory), stream_(memory.stream()), events_(events) {}

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
  void* const data = allocator.allocate(bytes, kDeviceAlignment, to);
  if (data == nullptr) {
    throw OutOfMemory(text("device memory for ", what), text("the allocator has no ", human_bytes(bytes)),
                      "free memory in its pool");
  }
  const Event allocated;  // the caller's stream may have to wait for the memory
  check(cudaEventRecord(allocated.get(), to), "event");
  memory.stream().wait_for(allocated);
  return {static_cast<std::byte*>(data), [release = allocator.release, to](std::byte* mine) {
            if (release) release(mine, to);
          }};
}

template <class T>
std::shared_ptr<T> ArrayCollector::allocate(std::uint64_t count, const char* what) const {
  return std::reinterpret_pointer_cast<T>(allocate_result(arrays_.call, memory_, count * sizeof(T), what));
}

ArrayCollector::Piece ArrayCollector::make_piece(std::uint64_t num_blocks) const {
  const std::uint64_t elements = std::uint64_t{arrays_.a.m} * arrays_.a.m;
  return {.num_blocks = num_blocks,
          .heads = {memory_, 2 * num_blocks, "block rows and columns"},
          .values = allocate<std::uint32_t>(num_blocks * elements, "result elements")};
}

bool ArrayCollector::takes_directly(const plan::Execution& execution, const plan::Statistics& counted) {
  constexpr std::uint64_t kLittleBytes = 64u << 20;
  constexpr double kRoom = 2;  // copying what is used takes a third of what taking records apart does
  sure_blocks_ = sure_terms(counted.max_element, counted.max_element) / counted.m();
  std::uint64_t most = 0;
  for (const plan::Panel& panel : execution.panels) most += panel.max_c_blocks();
  most = std::min(most, static_cast<std::uint64_t>(counted.num_pairs));
  const bool is_full = most * output_record_bytes(counted.m()) <= kLittleBytes ||
                       static_cast<double>(most) <= kRoom * expected_c_blocks(counted);
  return is_full && reserve(most, execution.panels.size());
}

bool ArrayCollector::reserve(std::uint64_t max_c_blocks, std::size_t num_panels) {
  if (max_c_blocks * output_record_bytes(arrays_.a.m) > memory_.free_bytes()) return false;
  try {
    Piece all = make_piece(max_c_blocks);
    num_so_far_ = {memory_, num_panels + 1, "counts"};
    check(cudaMemsetAsync(num_so_far_.data(), 0, sizeof(std::uint32_t), stream_.get()), "clear count");
    pieces_.push_back(std::move(all));
  } catch (const OutOfMemory&) {  // no piece of that size, or the caller's allocator has none
    return false;
  }
  return true;
}

void ArrayCollector::wait_until_free(PackedPanel& panel) {
  if (num_so_far_.size() == 0) return;
  panel.target = {
      .records = kernels::records_in_arrays(pieces_.front().heads.data(), pieces_.front().values.get(), arrays_.a.m),
      .num_before = num_so_far_.data() + num_panels_,
      .num_blocks = num_so_far_.data() + num_panels_ + 1};
}

void ArrayCollector::push(PackedPanel& panel) {
  is_counted_ = panel.target.is_counted;
  if (num_so_far_.size() != 0) {
    ++num_panels_;
    return;
  }
  panel.ready.synchronize();
  const std::uint64_t num_blocks = panel.num_blocks.value();
  if (num_blocks == 0) return;
  check_num_output_blocks(num_blocks_ + num_blocks);
  Piece piece = make_piece(num_blocks);
  events_.timed(Stage::compact, stream_, [&] {
    kernels::launch_unpack_records(reinterpret_cast<const std::uint32_t*>(panel.records.data()), num_blocks,
                                   arrays_.a.m, piece.heads.data(), piece.values.get(), stream_.get());
  });
  num_blocks_ += num_blocks;
  pieces_.push_back(std::move(piece));
}

/// Learns how much of the reserved arrays is in use; drops them if that is little.
void ArrayCollector::take_reserved() {
  num_blocks_ = fetch(num_so_far_.data() + num_panels_, stream_);
  const std::uint64_t elements = std::uint64_t{arrays_.a.m} * arrays_.a.m;
  Piece& all = pieces_.front();
  const std::uint64_t room = std::exchange(all.num_blocks, num_blocks_);
  if (num_blocks_ == 0) return pieces_.clear();
  if (room - num_blocks_ <= room / 4) return;
  const auto values = allocate<std::uint32_t>(num_blocks_ * elements, "result elements");
  events_.timed(Stage::compact, stream_,
                [&] { copy_async(values.get(), all.values.get(), num_blocks_ * elements, stream_); });
  all.values = values;
}

/// The pieces in arrays of their own, one behind the other.
ArrayCollector::Piece ArrayCollector::joined() {
  if (pieces_.empty()) return {};
  if (pieces_.size() == 1) return std::move(pieces_.front());
  const std::uint64_t elements = std::uint64_t{arrays_.a.m} * arrays_.a.m;
  Piece all = make_piece(num_blocks_);
  std::uint64_t at = 0;
  events_.timed(Stage::compact, stream_, [&] {
    for (const Piece& piece : pieces_) {
      copy_async(all.heads.data() + 2 * at, piece.heads.data(), 2 * piece.num_blocks, stream_);
      copy_async(all.values.get() + at * elements, piece.values.get(), piece.num_blocks * elements, stream_);
      at += piece.num_blocks;
    }
  });
  return all;
}

std::uint64_t ArrayCollector::finish() {
  DeviceBsrMatrix& out = *arrays_.out;
  const std::uint32_t index_bytes = arrays_.a.index_bytes;
  const std::uint64_t num_rows = arrays_.a.rows / arrays_.a.m;
  if (num_so_far_.size() != 0) take_reserved();
  if (index_bytes == 4 && num_blocks_ > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    throw OutOfMemory("result", text(num_blocks_, " blocks are more than indices of 32 bits can number"),
                      "pass operands with indices of 64 bits");
  }
  Piece all = joined();
  const auto indptr = allocate<std::byte>((num_rows + 1) * index_bytes, "indptr");
  const auto indices = allocate<std::byte>(num_blocks_ * index_bytes, "block columns");
  events_.timed(Stage::compact, stream_, [&] {
    kernels::launch_make_indices(
        all.heads.data(), num_blocks_,
        {.indptr = indptr.get(), .indices = indices.get(), .index_bytes = index_bytes, .num_rows = num_rows},
        stream_.get());
    if (is_counted_ || num_saturated_ == nullptr) return;
    const std::uint32_t m = arrays_.a.m;
    if (arrays_.a.indptr == nullptr) {  // many products have none as a whole
      kernels::launch_count_saturated(all.values.get(), num_blocks_ * m * m, num_saturated_, stream_.get());
    } else {
      kernels::launch_count_saturated_rows(all.heads.data(), all.values.get(), num_blocks_,
                                           {.indptr = arrays_.a.indptr, .index_bytes = index_bytes}, m, sure_blocks_,
                                           num_saturated_, stream_.get());
    }
  });
  const Event complete;
  complete.record(stream_);
  check(cudaStreamWaitEvent(arrays_.call.stream, complete.get()), "event");
  pieces_.clear();
  out.num_blocks = num_blocks_;
  out.device = memory_.context().device();
  out.indptr = indptr;
  out.indices = indices;
  out.values = all.values;
  heads_ = std::move(all.heads);
  return num_blocks_;
}

}  // namespace spmm::cuda
