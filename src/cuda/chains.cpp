// Chains on one device: both operands sorted by row, pairs listed by C block, and the list multiplied, once or often.
#include "cuda/chains.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "cuda/arrays/arrays.hpp"
#include "cuda/pipeline.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/chains/launch.hpp"

namespace spmm::cuda {
namespace {

/// sums[x] = counts[0] + ... + counts[x - 1], and all of them.
DeviceBuffer<std::uint32_t> sums_of(const DeviceBuffer<std::uint32_t>& counts, DeviceMemory& memory) {
  const std::uint64_t count = counts.size();
  DeviceBuffer<std::uint32_t> sums(memory, count + 1, "sums of rows");
  const DeviceBuffer<std::byte> work(memory, kernels::sums_workspace_bytes(count), "count work space");
  kernels::launch_sum_counts(counts.data(), count, sums.data(), {.data = work.data(), .bytes = work.size()},
                             memory.stream().get());
  return sums;
}

/// Errors: OutOfMemory.
void check_numbers(std::uint64_t count, const char* what) {
  if (count < kernels::kFirstOfBlock) return;
  throw OutOfMemory("a product of arrays", text("it has ", count, " ", what, ", at most 2^31 - 1 can be listed"),
                    "multiply some block rows of A at a time");
}

/// The pairs of a product by C block, and the pattern of C.
class ChainList {
 public:
  /// Sets indptr and indices of the result. Waits for the stream.
  /// Errors: FormatError, OutOfMemory.
  ChainList(const Source& a, const Source& b, const DeviceArrays& arrays, Pipeline& pipeline)
      : type_(arrays.a.type), m_(arrays.a.m) {
    DeviceMemory& memory = pipeline.memory();
    DeviceBsrView a_pattern = arrays.a;
    DeviceBsrView b_pattern = arrays.b;
    a_pattern.values = b_pattern.values = nullptr;
    check_numbers(a_pattern.num_blocks, "blocks of A");
    const DeviceArrays patterns{.a = a_pattern, .b = b_pattern, .call = arrays.call};
    const SortedOperands sorted =
        pipeline.sort_and_count(read_arrays(patterns, nullptr, a.header(), pipeline.upload_target()), a, b);
    num_rows_ = sorted.b_row_index.size() == 0 ? 0 : sorted.a.index.num_rows;
    pipeline.events().timed(Stage::count, memory.stream(), [&] { list(sorted, arrays.call, memory); });
    pipeline.events().timed(Stage::compact, memory.stream(), [&] { make_indices(sorted, arrays, memory); });
  }

  /// C = A * B. Shapes: as kernels::ChainValues.
  void multiply(const kernels::ChainValues& values, const DeviceContext& context, cudaStream_t stream) const {
    constexpr int kMeasured = 9;  // compute capability whose mma.sync was compared with the chain, bit by bit
    kernels::launch_multiply_chains(type_,
                                    {.c_links = c_links_.data(),
                                     .links = links_.data(),
                                     .num_c_blocks = num_blocks_,
                                     .num_rows = std::max(1u, num_rows_),
                                     .m = m_,
                                     .is_given = is_given_,
                                     .has_exact_mma = context.properties().major == kMeasured},
                                    values, stream);
  }

  [[nodiscard]] std::uint32_t num_blocks() const { return num_blocks_; }
  [[nodiscard]] std::uint64_t num_pairs() const { return num_pairs_; }
  [[nodiscard]] bool saturates() const { return type_ == ElementType::u16 && num_blocks_ != 0; }
  [[nodiscard]] std::uint64_t result_bytes() const {
    return std::uint64_t{num_blocks_} * m_ * m_ * element_bytes(result_of(type_));
  }

 private:
  void list(const SortedOperands& sorted, const DeviceCall& call, DeviceMemory& memory) {
    const auto numbers_of = [](const SortedRows& rows) { return rows.in_order ? nullptr : rows.numbers.data(); };
    kernels::RowsToList rows{.operands = {.a = sorted.a.index.view(),
                                          .b_rows = sorted.b.index.view(),
                                          .b_row_index = sorted.b_row_index.data(),
                                          .a_numbers = numbers_of(sorted.a),
                                          .b_numbers = numbers_of(sorted.b)},
                             .num_columns = sorted.c_columns};
    if (num_rows_ == 0) rows.operands = {};  // no pairs
    const DeviceBuffer<std::uint32_t> counts(memory, num_rows_, "counts of rows");
    const DeviceBuffer<std::uint32_t> walked(memory, num_rows_, "rows to walk");
    rows.walked = walked.data();
    const kernels::RowLinks links_of_rows{.num_pairs = counts.data(), .walked = walked.data()};
    if (call.c) {
      list_given(rows, links_of_rows, sorted.row_pairs.max_row_pairs, call, memory);
    } else if (num_rows_ != 0) {
      list_all(rows, links_of_rows, counts, memory);
    }
  }

  void list_all(kernels::RowsToList& rows, kernels::RowLinks links_of_rows, const DeviceBuffer<std::uint32_t>& counts,
                DeviceMemory& memory) {
    const Stream& stream = memory.stream();
    const DeviceBuffer<kernels::LinkTotals> totals(memory, 1, "totals of rows");
    check(cudaMemsetAsync(totals.data(), 0, sizeof(kernels::LinkTotals), stream.get()), "clear totals");
    links_of_rows.totals = totals.data();
    kernels::launch_count_links(rows.operands, links_of_rows, rows.tuning, stream.get());
    const DeviceBuffer<std::uint32_t> row_links = sums_of(counts, memory);
    rows.totals = fetch(totals.data(), stream);
    num_pairs_ = rows.totals.num_pairs;
    check_numbers(num_pairs_, "pairs of blocks");
    if (num_pairs_ == 0) return;
    links_ = {memory, num_pairs_ + 1, "pairs"};
    kernels::LinkList list{.row_links = row_links.data(), .row_blocks = counts.data(), .links = links_.data()};
    kernels::launch_count_c_blocks(rows, list, stream.get());
    c_offsets_ = sums_of(counts, memory);
    num_blocks_ = fetch(c_offsets_.data() + num_rows_, stream);
    c_columns_ = {memory, num_blocks_, "block columns"};
    c_links_ = {memory, num_blocks_ + std::uint64_t{1}, "pairs of C blocks"};
    list.c_offsets = c_offsets_.data();
    list.c_columns = c_columns_.data();
    list.c_links = c_links_.data();
    list.num_c_blocks = num_blocks_;
    kernels::launch_fill_links(rows, list, stream.get());
  }

  /// The same of C blocks that are given. Errors: FormatError, ShapeError (one is missing).
  void list_given(kernels::RowsToList& rows, kernels::RowLinks links_of_rows, std::uint64_t most_row_pairs,
                  const DeviceCall& call, DeviceMemory& memory) {
    constexpr auto kNothingBad = kernels::ArrayFindings::kNothingBad;
    struct Found {
      kernels::LinkTotals of_rows{};
      kernels::PatternFindings of_pattern{};
      unsigned long long num_pairs = 0;
      unsigned long long missing = kNothingBad;
    };
    const Stream& stream = memory.stream();
    const DeviceBsrView& c = *call.c;
    check_numbers(c.num_blocks, "blocks of C");
    is_given_ = true;
    num_blocks_ = static_cast<std::uint32_t>(c.num_blocks);
    const DeviceBuffer<std::uint32_t> offsets(memory, c.rows / m_ + 1, "offsets of C");
    const DeviceBuffer<std::uint32_t> columns(memory, num_blocks_, "block columns");
    const DeviceBuffer<std::uint32_t> counts(memory, num_blocks_, "pairs of C blocks");
    const DeviceBuffer<Found> findings(memory, 1, "findings");
    Found found;
    copy_async(findings.data(), &found, 1, stream);
    if (num_blocks_ != 0)
      check(cudaMemsetAsync(counts.data(), 0, counts.size() * sizeof(std::uint32_t), stream.get()), "clear");
    kernels::launch_read_pattern({.indptr = c.indptr,
                                  .indices = c.indices,
                                  .index_bytes = c.index_bytes,
                                  .num_rows = c.rows / m_,
                                  .num_columns = c.cols / m_,
                                  .num_blocks = c.num_blocks},
                                 offsets.data(), columns.data(), &findings.data()->of_pattern, stream.get());
    rows.tuning.sorted_pairs = rows.tuning.medium_pairs;  // long rows alone are listed
    if (most_row_pairs > rows.tuning.medium_pairs) {
      links_of_rows.totals = &findings.data()->of_rows;
      kernels::launch_count_links(rows.operands, links_of_rows, rows.tuning, stream.get());
      rows.num_pairs = links_of_rows.num_pairs;
    }
    found = fetch(findings.data(), stream);
    rows.totals = found.of_rows;
    check_findings(c, "matrix C", {.bad_row = found.of_pattern.bad_row});
    if (const auto at = found.of_pattern.bad_index; at != kNothingBad) {
      throw FormatError(text("matrix C, indices[", at, "]"),
                        text("it is not in 0 to ", c.cols / m_ - 1, ", or not above the one before in its row"),
                        "pass block columns below cols / m that ascend in each row");
    }
    const kernels::PatternView pattern{.offsets = offsets.data(),
                                       .columns = columns.data(),
                                       .max_row_blocks = found.of_pattern.max_row_blocks,
                                       .num_pairs = &findings.data()->num_pairs,
                                       .missing = call.is_mask ? nullptr : &findings.data()->missing};
    kernels::launch_pattern_links(rows, pattern, counts.data(), nullptr, stream.get());
    found = fetch(findings.data(), stream);
    if (found.missing != kNothingBad) throw_missing_block(found.missing >> 32, found.missing & 0xFFFF'FFFFu);
    num_pairs_ = found.num_pairs;
    check_numbers(num_pairs_, "pairs of blocks");
    c_links_ = sums_of(counts, memory);
    links_ = {memory, num_pairs_ + 1, "pairs"};
    kernels::launch_pattern_links(rows, pattern, c_links_.data(), links_.data(), stream.get());
  }

  void make_indices(const SortedOperands& sorted, const DeviceArrays& arrays, DeviceMemory& memory) {
    const cudaStream_t stream = memory.stream().get();
    const std::uint64_t index_bytes = arrays.a.index_bytes;
    const std::uint64_t num_block_rows = arrays.a.rows / m_;
    DeviceBsrMatrix& out = *arrays.out;
    const auto indptr = allocate_result(arrays.call, memory, (num_block_rows + 1) * index_bytes, "indptr");
    const auto indices = allocate_result(arrays.call, memory, num_blocks_ * index_bytes, "block columns");
    if (const auto& c = arrays.call.c; c) {
      copy_async(indptr.get(), static_cast<const std::byte*>(c->indptr), (num_block_rows + 1) * index_bytes,
                 memory.stream());
      copy_async(indices.get(), static_cast<const std::byte*>(c->indices), num_blocks_ * index_bytes, memory.stream());
    } else if (num_blocks_ == 0) {
      check(cudaMemsetAsync(indptr.get(), 0, (num_block_rows + 1) * index_bytes, stream), "clear indptr");
    } else {
      kernels::launch_expand_indices(
          {.c_offsets = c_offsets_.data(), .c_columns = c_columns_.data(), .num_c_blocks = num_blocks_},
          sorted.a.index.rows.data(), num_rows_,
          {.indptr = indptr.get(),
           .indices = indices.get(),
           .index_bytes = arrays.a.index_bytes,
           .num_rows = num_block_rows},
          stream);
    }
    c_offsets_ = {};
    c_columns_ = {};
    out.num_blocks = num_blocks_;
    out.device = memory.context().device();
    out.indptr = indptr;
    out.indices = indices;
  }

  ElementType type_;
  std::uint32_t m_;
  std::uint32_t num_rows_ = 0;  // of A that may have pairs
  std::uint32_t num_blocks_ = 0;
  bool is_given_ = false;  // which blocks C has
  std::uint64_t num_pairs_ = 0;
  DeviceBuffer<std::uint32_t> c_offsets_;  // [num_rows + 1], until there are indices
  DeviceBuffer<std::uint32_t> c_columns_;  // [num_blocks], the same
  DeviceBuffer<std::uint32_t> c_links_;    // [num_blocks + 1]
  DeviceBuffer<kernels::Link> links_;      // [num_pairs + 1]
};

/// Elements of an operand where kernels can read them: the caller's, or a copy that is aligned.
DeviceBuffer<std::byte> aligned_values(const DeviceBsrView& view, DeviceMemory& memory) {
  auto* const data = const_cast<std::byte*>(static_cast<const std::byte*>(view.values));  // never written
  auto values = DeviceBuffer<std::byte>::borrow(data, view.num_blocks * view.m * view.m * element_bytes(view.type));
  return is_aligned(data) ? std::move(values) : copy_of(values, memory, "elements");
}

/// Elements of a result of u16 that are kMaxVal; 0 of other types. Waits for the stream.
std::uint64_t count_saturated(const ChainList& list, const void* c, DeviceMemory& memory) {
  if (!list.saturates()) return 0;
  const DeviceBuffer<unsigned long long> count(memory, 1, "count");
  const Stream& stream = memory.stream();
  check(cudaMemsetAsync(count.data(), 0, sizeof(unsigned long long), stream.get()), "clear");
  kernels::launch_count_saturated(static_cast<const std::uint32_t*>(c), list.result_bytes() / sizeof(std::uint32_t),
                                  count.data(), stream.get());
  return fetch(count.data(), stream);
}

/// Of a pipeline for which nothing has been decided.
plan::Execution execution_within(std::uint64_t limit_bytes) {
  plan::Execution execution;
  execution.device_limit_bytes = limit_bytes;
  return execution;
}
const plan::Decide& no_decision() {
  static const plan::Decide kNone = [](const plan::Statistics&) -> plan::Execution {
    throw std::logic_error("chains are not decided on");
  };
  return kNone;
}

/// A plan of chains.
class PlannedChains : public PlannedProduct {
 public:
  PlannedChains(const Source& a, const Source& b, std::uint64_t limit_bytes, const DeviceRun& run) : run_(run) {
    const DeviceGuard guard(run_.device->device());
    check_arrays(*run_.arrays, *run_.device);
    kept_.emplace(limit_bytes, run_);
    Pipeline& pipeline = kept_->pipeline;
    use_callers_memory(*run_.arrays, pipeline.memory());
    kept_->list.emplace(a, b, *run_.arrays, pipeline);
    pipeline.stream().synchronize();  // the pattern may be read on any stream
  }
  ~PlannedChains() override {
    try {
      const DeviceGuard guard(run_.device->device());
      kept_.reset();
    } catch (...) {  // no device to give anything back to
    }
  }

  void multiply(const void* a, const void* b, void* c, CUstream_st* stream, const void* alpha,
                const void* beta) override {
    if (!is_aligned(a) || !is_aligned(b) || !is_aligned(c)) {
      throw UsageError("DevicePlan::multiply", "values do not begin at a multiple of 16 bytes", "pass a copy of them");
    }
    if (run_.arrays->a.type == ElementType::u16) check_not_scaled(alpha, beta);
    const DeviceGuard guard(run_.device->device());
    const Stream& own = behind(stream);
    kept_->list->multiply({.a = a, .b = b, .c = c, .old = c, .alpha = alpha, .beta = beta}, *run_.device, own.get());
    const Event complete;
    complete.record(own);
    check(cudaStreamWaitEvent(stream, complete.get()), "event");
  }

  std::uint64_t count_saturated(const std::uint32_t* c, CUstream_st* stream) override {
    const DeviceGuard guard(run_.device->device());
    behind(stream);
    return cuda::count_saturated(*kept_->list, c, kept_->pipeline.memory());
  }

 private:
  /// The plan's stream, once it waits for what the caller has queued.
  const Stream& behind(CUstream_st* stream) {
    const Stream& own = kept_->pipeline.stream();
    const Event called;
    check(cudaEventRecord(called.get(), stream), "event");
    own.wait_for(called);
    return own;
  }

  /// Everything on the device; the later goes first.
  struct Kept {
    Kept(std::uint64_t limit_bytes, const DeviceRun& run)
        : pipeline({.device = run.device, .memory = run.memory}, execution_within(limit_bytes), no_decision(), run) {}
    Pipeline pipeline;
    std::optional<ChainList> list;
  };

  DeviceRun run_;
  std::optional<Kept> kept_;
};

/// Lists and multiplies; sets the result.
ProductStats multiply_arrays(const Source& a, const Source& b, const DeviceArrays& arrays, Pipeline& pipeline,
                             const DeviceRun& run) {
  DeviceMemory& memory = pipeline.memory();
  const Stream& stream = pipeline.stream();
  check_arrays(arrays, *run.device);
  const ChainList list(a, b, arrays, pipeline);
  run.check_cancelled();
  const auto values = allocate_result(arrays.call, memory, list.result_bytes(), "result elements");
  const DeviceBuffer<std::byte> of_a = aligned_values(arrays.a, memory);
  const DeviceBuffer<std::byte> of_b = aligned_values(arrays.b, memory);
  DeviceBuffer<std::byte> of_c;
  if (arrays.call.beta != nullptr) of_c = aligned_values(*arrays.call.c, memory);
  pipeline.events().begin_panel(stream, {.pairs = list.num_pairs(), .panel = 0});
  pipeline.events().timed(Stage::multiply, stream, [&] {
    list.multiply({.a = of_a.data(),
                   .b = of_b.data(),
                   .c = values.get(),
                   .old = of_c.data(),
                   .alpha = arrays.call.alpha,
                   .beta = arrays.call.beta},
                  *run.device, stream.get());
  });
  const Event complete;
  complete.record(stream);
  check(cudaStreamWaitEvent(arrays.call.stream, complete.get()), "event");
  arrays.out->values = values;
  return {.num_blocks = list.num_blocks(),
          .pairs = list.num_pairs(),
          .num_panels = list.num_blocks() == 0 ? 0u : 1u,
          .peak_device_bytes = memory.peak_bytes(),
          .num_saturated = count_saturated(list, values.get(), memory),
          .device = run.device->properties().name};
}

ProductStats multiply_host(const Source& a, const Source& b, const HostChains& host, Pipeline& pipeline,
                           const DeviceRun& run) {
  const cudaStream_t stream = pipeline.stream().get();
  std::vector<DeviceBuffer<std::byte>> uploaded;
  const auto upload = [&](const void* from, std::uint64_t bytes) -> const void* {
    const auto& to = uploaded.emplace_back(pipeline.memory(), bytes, "operands");
    if (bytes != 0) check(cudaMemcpyAsync(to.data(), from, bytes, cudaMemcpyHostToDevice, stream), "upload");
    return to.data();
  };
  const auto on_device = [&](DeviceBsrView view) {
    view.indptr = upload(view.indptr, (view.rows / view.m + 1) * view.index_bytes);
    view.indices = upload(view.indices, view.num_blocks * view.index_bytes);
    if (view.values != nullptr) {
      view.values = upload(view.values, view.num_blocks * view.m * view.m * element_bytes(view.type));
    }
    return view;
  };
  DeviceCall call = host.call;
  call.stream = stream;
  DeviceBsrView view_a;
  DeviceBsrView view_b;
  pipeline.events().timed(Stage::h2d, pipeline.stream(), [&] {
    view_a = on_device(host.a);
    view_b = on_device(host.b);
    if (!call.c) return;
    if (call.beta == nullptr) call.c->values = nullptr;
    call.c = on_device(*call.c);
  });
  DeviceBsrMatrix c;
  const ProductStats stats = multiply_arrays(a, b, {.a = view_a, .b = view_b, .call = call, .out = &c}, pipeline, run);
  host.indptr.resize(host.a.rows / host.a.m + 1);
  host.indices.resize(stats.num_blocks);
  const std::uint64_t num_elements = stats.num_blocks * host.a.m * host.a.m;
  void* const values = host.allocate_values(num_elements);
  pipeline.events().timed(Stage::d2h, pipeline.stream(), [&] {
    const auto download = [&](void* to, const std::shared_ptr<const void>& from, std::uint64_t bytes) {
      if (bytes != 0) check(cudaMemcpyAsync(to, from.get(), bytes, cudaMemcpyDeviceToHost, stream), "download");
    };
    download(host.indptr.data(), c.indptr, host.indptr.size() * sizeof(std::int64_t));
    download(host.indices.data(), c.indices, host.indices.size() * sizeof(std::int64_t));
    download(values, c.values, num_elements * element_bytes(result_of(host.a.type)));
  });
  pipeline.stream().synchronize();
  return stats;
}

}  // namespace

ProductStats multiply_chains(const Source& a, const Source& b, std::uint64_t limit_bytes, const DeviceRun& run,
                             const HostChains* host) {
  const DeviceGuard guard(run.device->device());
  Pipeline pipeline({.device = run.device, .memory = run.memory}, execution_within(limit_bytes), no_decision(), run);
  ProductStats stats;
  if (host != nullptr) {
    stats = multiply_host(a, b, *host, pipeline, run);
  } else {
    use_callers_memory(*run.arrays, pipeline.memory());
    pipeline.memory().cut_small_buffers();
    stats = multiply_arrays(a, b, *run.arrays, pipeline, run);
  }
  StageSpans spans;
  pipeline.events().collect(spans, run.clock.trace(), *run.device);
  add_spans(std::move(spans), run.clock);
  return stats;
}

std::unique_ptr<PlannedProduct> plan_chains(const Source& a, const Source& b, std::uint64_t limit_bytes,
                                            const DeviceRun& run) {
  return std::make_unique<PlannedChains>(a, b, limit_bytes, run);
}

}  // namespace spmm::cuda
