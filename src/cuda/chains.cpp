// Chains on one device: both operands sorted by row, pairs listed by C block, and the list multiplied, once or often.
#include "cuda/chains.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "cuda/arrays/arrays.hpp"
#include "cuda/pipeline.hpp"
#include "cuda/planned.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/chains/launch.hpp"

namespace spmm::cuda {
namespace {

using plan::ListedRows;

/// sums[x] = counts[0] + ... + counts[x - 1], and all of them. Shapes: counts [count], device.
DeviceBuffer<std::uint32_t> sums_of(const std::uint32_t* counts, std::uint64_t count, DeviceMemory& memory) {
  DeviceBuffer<std::uint32_t> sums(memory, count + 1, "sums of rows");
  const DeviceBuffer<std::byte> work(memory, kernels::sums_workspace_bytes(count), "count work space");
  kernels::launch_sum_counts(counts, count, sums.data(), {.data = work.data(), .bytes = work.size()},
                             memory.stream().get());
  return sums;
}

/// Errors: OutOfMemory.
void check_numbers(std::uint64_t count, const char* what) {
  if (count < kernels::kFirstOfBlock) return;
  throw OutOfMemory("a product of arrays", text("it has ", count, " ", what, ", at most 2^31 - 1 can be listed"),
                    "multiply some block rows of A at a time");
}

/// The pattern of C, and the pairs of a product by C block: of all rows of A, or of some after the others.
class ChainList {
 public:
  /// Counts the blocks of C. Waits for the stream. Values: operands = those of `arrays`; is_kept = all pairs are
  /// listed, for a plan. Errors: FormatError, ShapeError, OutOfMemory.
  ChainList(const Source& a, const Source& b, const DeviceArrays& arrays, ArrayOperands& operands, bool is_kept,
            Pipeline& pipeline)
      : arrays_(arrays), memory_(pipeline.memory()), events_(pipeline.events()) {
    check_numbers(arrays.a.num_blocks, "blocks of A");
    sorted_ = pipeline.sort_and_count(operands.read(a.header(), pipeline.events()), a, b);
    sorted_.pair_offsets = {};
    num_rows_ = sorted_.b_row_index.size() == 0 ? 0 : sorted_.a.index.num_rows;
    num_pairs_ = sorted_.num_pairs();
    max_row_pairs_ = sorted_.row_pairs.max_row_pairs;
    row_blocks_ = {memory_, num_rows_, "counts of rows"};
    events_.timed(Stage::count, memory_.stream(), [&] {
      if (is_given()) {
        list_given(*arrays.call.c);
      } else {
        count_blocks(is_kept);
      }
    });
    if (is_kept) drop_operands();
  }

  /// Before anything is multiplied: sees to it that some rows at least can be listed beside a result.
  /// Values: result_bytes = of its elements; block_bytes = of each C block whose row is listed, in addition.
  /// Errors: OutOfMemory.
  void make_room(std::uint64_t result_bytes, std::uint64_t block_bytes) {
    const bool fits = is_listed_ && result_bytes + num_blocks_ * block_bytes <= memory_.free_bytes();
    if (!fits && num_blocks_ != 0 && !is_given()) {
      links_ = {};
      is_listed_ = false;
      divide(memory_.free_bytes() - std::min(memory_.free_bytes(), result_bytes), block_bytes);
    }
    if (is_listed_) drop_operands();
  }

  /// All rows of A that have pairs.
  [[nodiscard]] const std::vector<ListedRows>& parts() const { return parts_; }

  /// Lists the pairs of one of the parts, which go in order, if not all are listed.
  void prepare(const ListedRows& part) {
    if (is_listed_) return;
    events_.timed(Stage::count, memory_.stream(), [&] { fill(part, list(part)); });
    if (&part == &parts_.back()) drop_operands();
  }

  /// C = A * B for rows that are listed; values.c is that of their blocks. Shapes: as kernels::ChainValues.
  void multiply(const ListedRows& part, const kernels::ChainValues& values, cudaStream_t stream) const {
    constexpr int kMeasured = 9;  // compute capability whose mma.sync was compared with the chain, bit by bit
    kernels::launch_multiply_chains(arrays_.a.type,
                                    {.c_links = c_links_.data() + part.first_block,
                                     .links = links_.data(),
                                     .num_c_blocks = part.num_blocks,
                                     .num_rows = std::max(1u, part.num_rows),
                                     .m = arrays_.a.m,
                                     .is_given = is_given(),
                                     .has_exact_mma = memory_.context().properties().major == kMeasured},
                                    values, stream);
  }

  [[nodiscard]] std::uint32_t num_blocks() const { return num_blocks_; }
  [[nodiscard]] std::uint64_t num_pairs() const { return num_pairs_; }
  [[nodiscard]] std::uint64_t max_row_pairs() const { return max_row_pairs_; }

 private:
  /// Rows of A as the kernels see them, once their pairs are counted.
  struct Counted {
    DeviceBuffer<kernels::ListPiece> pieces;
    DeviceBuffer<std::uint32_t> row_links;
    kernels::RowsToList rows;
  };

  /// Which blocks C has is given, not found.
  [[nodiscard]] bool is_given() const { return arrays_.call.c.has_value(); }

  [[nodiscard]] kernels::RowsToList rows_of(const ListedRows& part) const {
    kernels::RowsToList rows{.operands = {}, .num_columns = sorted_.c_columns};
    if (part.num_rows == 0) return rows;
    const auto numbers_of = [](const SortedRows& of) { return of.in_order ? nullptr : of.numbers.data(); };
    rows.operands = {.a = {.index = sorted_.a.index.view(), .numbers = numbers_of(sorted_.a)},
                     .b = {.index = sorted_.b.index.view(), .numbers = numbers_of(sorted_.b)},
                     .b_row_index = sorted_.b_row_index.data()};
    rows.operands.a.index.num_rows = part.num_rows;
    rows.operands.a.index.rows += part.row_begin;
    rows.operands.a.index.offsets += part.row_begin;
    return rows;
  }

  /// Counts the pairs of some rows, and cuts longer ones into pieces. Waits for the stream.
  Counted count(const ListedRows& part, const kernels::ListTuning& tuning) {
    Counted counted{.pieces = {memory_, tuning.max_pieces(part.num_rows, part.num_pairs), "pieces of rows"},
                    .row_links = {},
                    .rows = rows_of(part)};
    counted.rows.pieces = counted.pieces.data();
    counted.rows.tuning = tuning;
    std::uint32_t* const counts = row_blocks_.data() + part.row_begin;
    const DeviceBuffer<kernels::LinkTotals> totals(memory_, 1, "totals of rows");
    check(cudaMemsetAsync(totals.data(), 0, sizeof(kernels::LinkTotals), memory_.stream().get()), "clear totals");
    kernels::launch_count_links(counted.rows.operands,
                                {.num_pairs = counts, .pieces = counted.pieces.data(), .totals = totals.data()}, tuning,
                                memory_.stream().get());
    counted.row_links = sums_of(counts, part.num_rows, memory_);
    counted.rows.totals = fetch(totals.data(), memory_.stream());
    return counted;
  }

  /// Lists the pairs of some rows, and counts their C blocks.
  Counted list(const ListedRows& part) {
    Counted counted = count(part, {});
    links_ = {};
    links_ = {memory_, part.num_pairs + 1, "pairs"};
    kernels::launch_list_links(counted.rows,
                               {.row_links = counted.row_links.data(),
                                .row_blocks = row_blocks_.data() + part.row_begin,
                                .links = links_.data()},
                               memory_.stream().get());
    return counted;
  }

  /// C blocks of rows that are listed, once those of all rows are counted.
  void fill(const ListedRows& part, const Counted& counted) {
    kernels::launch_fill_blocks(counted.rows,
                                {.row_links = counted.row_links.data(),
                                 .c_offsets = c_offsets_.data() + part.row_begin,
                                 .c_links = c_links_.data(),
                                 .links = links_.data(),
                                 .num_c_blocks = part.first_block + part.num_blocks},
                                indices_, memory_.stream().get());
  }

  /// The blocks of C. All pairs are listed, if they take no more than half of the memory or are to be kept.
  void count_blocks(bool is_kept) {
    const std::uint64_t half = memory_.free_bytes() / 2;
    if (is_kept) check_numbers(num_pairs_, "pairs of blocks");
    is_listed_ = is_kept || (num_pairs_ < kernels::kFirstOfBlock && num_pairs_ * sizeof(kernels::Link) <= half);
    parts_ = {{.num_rows = num_rows_, .num_pairs = num_pairs_}};
    if (!is_listed_) divide(half, 0);
    Counted counted;
    for (const ListedRows& part : parts_) counted = list(part);
    if (!is_listed_) {
      const auto blocks = fetch_all(row_blocks_.data(), num_rows_, memory_.stream());
      check_numbers(std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0}), "blocks of C");
    }
    c_offsets_ = sums_of(row_blocks_.data(), num_rows_, memory_);
    num_blocks_ = fetch(c_offsets_.data() + num_rows_, memory_.stream());
    c_links_ = {memory_, num_blocks_ + std::uint64_t{1}, "pairs of C blocks"};
    allocate_indices();
    kernels::launch_expand_offsets(c_offsets_.data(), sorted_.a.index.rows.data(), num_rows_, indices_,
                                   memory_.stream().get());
    if (!is_listed_) return;
    parts_[0].num_blocks = num_blocks_;
    fill(parts_[0], counted);
  }

  /// Sets the parts: most_bytes hold what rows take while they are listed. Errors: OutOfMemory.
  void divide(std::uint64_t most_bytes, std::uint64_t block_bytes) {
    constexpr std::uint64_t kMostPairs = kernels::kFirstOfBlock - 1;
    most_bytes = std::min(most_bytes / 8 * 7, kMostPairs * sizeof(kernels::Link));  // the rest is work space
    if (sorted_.row_pairs.rows_per_run != 1) fetch_row_pairs(sorted_, num_rows_, memory_);
    sorted_.pair_offsets = {};
    std::vector<std::uint32_t> blocks(num_rows_ + std::size_t{1});
    if (c_offsets_.size() != 0) blocks = fetch_all(c_offsets_.data(), blocks.size(), memory_.stream());
    parts_ = plan::cut_rows(sorted_.row_pairs, blocks, most_bytes, block_bytes);
    for (const ListedRows& part : parts_) {
      if (part.bytes(block_bytes) <= most_bytes) continue;
      throw OutOfMemory("device memory for pairs",
                        text("a block row of A has ", part.num_pairs,
                             " pairs, which do not fit beside the result, or are 2^31 or more"),
                        "raise EngineOptions::memory_limit_bytes, or multiply some block columns of B at a time");
    }
  }

  /// All pairs of C blocks that are given. Errors: FormatError, ShapeError (one is missing), OutOfMemory.
  void list_given(const DeviceBsrView& c) {
    constexpr auto kNothingBad = kernels::ArrayFindings::kNothingBad;
    struct Found {
      kernels::PatternFindings of_pattern{};
      unsigned long long num_pairs = 0;
      unsigned long long missing = kNothingBad;
    };
    const Stream& stream = memory_.stream();
    check_numbers(c.num_blocks, "blocks of C");
    num_blocks_ = static_cast<std::uint32_t>(c.num_blocks);
    parts_ = {{.num_rows = num_rows_, .num_pairs = num_pairs_, .num_blocks = num_blocks_}};
    constexpr kernels::ListTuning kAll{.sorted_pairs = 0};
    const bool is_cut = max_row_pairs_ > kAll.piece_pairs;
    const Counted counted =
        is_cut ? count(parts_[0], kAll) : Counted{.pieces = {}, .row_links = {}, .rows = rows_of(parts_[0])};
    const DeviceBuffer<std::uint32_t> offsets(memory_, c.rows / c.m + 1, "offsets of C");
    const DeviceBuffer<std::uint32_t> columns(memory_, num_blocks_, "block columns");
    const DeviceBuffer<std::uint32_t> counts(memory_, num_blocks_, "pairs of C blocks");
    const DeviceBuffer<Found> findings(memory_, 1, "findings");
    Found found;
    copy_async(findings.data(), &found, 1, stream);
    if (num_blocks_ != 0)
      check(cudaMemsetAsync(counts.data(), 0, counts.size() * sizeof(std::uint32_t), stream.get()), "clear");
    kernels::launch_read_pattern({.indptr = c.indptr,
                                  .indices = c.indices,
                                  .index_bytes = c.index_bytes,
                                  .num_rows = c.rows / c.m,
                                  .num_columns = c.cols / c.m,
                                  .num_blocks = c.num_blocks},
                                 offsets.data(), columns.data(), &findings.data()->of_pattern, stream.get());
    found = fetch(findings.data(), stream);
    check_findings(c, "matrix C", {.bad_row = found.of_pattern.bad_row});
    if (const auto at = found.of_pattern.bad_index; at != kNothingBad) {
      throw FormatError(text("matrix C, indices[", at, "]"),
                        text("it is not in 0 to ", c.cols / c.m - 1, ", or not above the one before in its row"),
                        "pass block columns below cols / m that ascend in each row");
    }
    const kernels::PatternView pattern{.offsets = offsets.data(),
                                       .columns = columns.data(),
                                       .max_row_blocks = found.of_pattern.max_row_blocks,
                                       .num_pairs = &findings.data()->num_pairs,
                                       .missing = arrays_.call.is_mask ? nullptr : &findings.data()->missing};
    kernels::launch_pattern_links(counted.rows, pattern, counts.data(), nullptr, stream.get());
    found = fetch(findings.data(), stream);
    if (found.missing != kNothingBad) throw_missing_block(found.missing >> 32, found.missing & 0xFFFF'FFFFu);
    num_pairs_ = found.num_pairs;
    check_numbers(num_pairs_, "pairs of blocks");
    c_links_ = sums_of(counts.data(), num_blocks_, memory_);
    links_ = {memory_, num_pairs_ + 1, "pairs"};
    kernels::launch_pattern_links(counted.rows, pattern, c_links_.data(), links_.data(), stream.get());
    parts_[0].num_pairs = num_pairs_;
    allocate_indices();
    copy_async(static_cast<std::byte*>(indices_.indptr), static_cast<const std::byte*>(c.indptr),
               (indices_.num_rows + 1) * indices_.index_bytes, stream);
    copy_async(static_cast<std::byte*>(indices_.indices), static_cast<const std::byte*>(c.indices),
               c.num_blocks * indices_.index_bytes, stream);
  }

  /// Indices of the result, not yet written. Errors: OutOfMemory.
  void allocate_indices() {
    const DeviceBsrView& a = arrays_.a;
    DeviceBsrMatrix& out = *arrays_.out;
    const auto indptr = allocate_result(arrays_.call, memory_, (a.rows / a.m + 1) * a.index_bytes, "indptr");
    const auto indices = allocate_result(arrays_.call, memory_, num_blocks_ * a.index_bytes, "block columns");
    indices_ = {
        .indptr = indptr.get(), .indices = indices.get(), .index_bytes = a.index_bytes, .num_rows = a.rows / a.m};
    out.num_blocks = num_blocks_;
    out.device = memory_.context().device();
    out.indptr = indptr;
    out.indices = indices;
  }

  /// Gives back what is not needed to multiply.
  void drop_operands() {
    sorted_ = {};
    row_blocks_ = {};
    c_offsets_ = {};
  }

  const DeviceArrays& arrays_;
  DeviceMemory& memory_;
  StageEvents& events_;
  SortedOperands sorted_;       // until all rows are listed
  std::uint32_t num_rows_ = 0;  // of A that may have pairs
  std::uint32_t num_blocks_ = 0;
  std::uint64_t num_pairs_ = 0;
  std::uint64_t max_row_pairs_ = 0;
  std::vector<ListedRows> parts_;
  bool is_listed_ = true;                   // links_ has all pairs
  kernels::IndexArrays indices_;            // of the result
  DeviceBuffer<std::uint32_t> row_blocks_;  // [num_rows]: C blocks, or pairs, until all rows are listed
  DeviceBuffer<std::uint32_t> c_offsets_;   // [num_rows + 1], the same
  DeviceBuffer<std::uint32_t> c_links_;     // [num_blocks + 1], from the first pair of a part on
  DeviceBuffer<kernels::Link> links_;       // [pairs of a part + 1]
};

/// Elements of an operand where kernels can read them: the caller's, or a copy that is aligned.
DeviceBuffer<std::byte> aligned_values(const DeviceBsrView& view, DeviceMemory& memory) {
  auto* const data = const_cast<std::byte*>(static_cast<const std::byte*>(view.values));  // never written
  auto values = DeviceBuffer<std::byte>::borrow(data, view.num_blocks * view.m * view.m * element_bytes(view.type));
  return is_aligned(data) ? std::move(values) : copy_of(values, memory, "elements");
}

/// Of C blocks of a product of `a`.
std::uint64_t result_bytes(const DeviceBsrView& a, std::uint64_t num_blocks) {
  return num_blocks * a.m * a.m * element_bytes(result_of(a.type));
}

/// Of a pipeline for which nothing has been decided.
plan::Choice execution_within(std::uint64_t limit_bytes) {
  plan::Choice execution;
  execution.device_limit_bytes = limit_bytes;
  return execution;
}

/// A plan of chains.
class KeptChains : public KeptPlan {
 public:
  KeptChains(const DeviceRun& run, const Source& a, const Source& b, std::uint64_t limit_bytes)
      : KeptPlan(run, execution_within(limit_bytes)) {
    ArrayOperands operands(arrays(), memory());
    list_.emplace(a, b, arrays(), operands, true, pipeline_);
    pipeline_.stream().synchronize();  // the pattern may be read on any stream
  }

  void multiply(const kernels::ChainValues& values) override {
    for (const ListedRows& all : list_->parts()) list_->multiply(all, values, pipeline_.stream().get());
  }

 private:
  std::optional<ChainList> list_;
};

/// Largest absolute values of integers whose sums may overflow; 0 of others. Shapes: elements, device.
Magnitudes largest_of(ElementType type, const DeviceBuffer<std::byte>& a, const DeviceBuffer<std::byte>& b,
                      const DeviceBuffer<std::byte>& c, DeviceMemory& memory) {
  if (result_of(type) != ElementType::i64) return {};
  const Stream& stream = memory.stream();
  const DeviceBuffer<unsigned long long> largest(memory, 3, "largest elements");
  check(cudaMemsetAsync(largest.data(), 0, 3 * sizeof(unsigned long long), stream.get()), "clear");
  const auto find = [&](ElementType of, const DeviceBuffer<std::byte>& values, std::size_t at) {
    kernels::launch_find_largest(of, values.data(), values.size() / element_bytes(of), largest.data() + at,
                                 stream.get());
  };
  find(type, a, 0);
  find(type, b, 1);
  find(ElementType::i64, c, 2);
  const auto found = fetch_all(largest.data(), 3, stream);
  return {.a = static_cast<double>(found[0]), .b = static_cast<double>(found[1]), .c = static_cast<double>(found[2])};
}

/// Lists and multiplies. The values go to the host, if it wants them; the rest of the result is on the device.
ProductStats multiply_arrays(const Source& a, const Source& b, const DeviceArrays& arrays, const HostChains* host,
                             Pipeline& pipeline, const DeviceRun& run) {
  DeviceMemory& memory = pipeline.memory();
  const Stream& stream = pipeline.stream();
  const DeviceCall& call = arrays.call;
  ArrayOperands operands(arrays, memory);
  ChainList list(a, b, arrays, operands, false, pipeline);
  run.check_cancelled();
  const auto [view_a, view_b] = operands.views();
  const DeviceBuffer<std::byte> of_a = aligned_values(view_a, memory);
  const DeviceBuffer<std::byte> of_b = aligned_values(view_b, memory);
  DeviceBuffer<std::byte> of_c;
  if (call.beta != nullptr) of_c = aligned_values(*call.c, memory);
  const std::uint64_t block_bytes = result_bytes(view_a, 1);
  const std::uint64_t values_bytes = list.num_blocks() * block_bytes;
  list.make_room(call.allocator.allocate || host != nullptr ? 0 : values_bytes, host == nullptr ? 0 : block_bytes);
  std::shared_ptr<std::byte> whole;
  if (host == nullptr) whole = allocate_result(call, memory, values_bytes, "result elements");
  std::byte* to_host = nullptr;
  ProductStats stats{.num_blocks = list.num_blocks(),
                     .pairs = list.num_pairs(),
                     .device = run.device->properties().name,
                     .max_row_pairs = list.max_row_pairs()};
  for (const ListedRows& part : list.parts()) {
    run.check_cancelled();
    list.prepare(part);
    if (part.num_blocks == 0) continue;
    const std::uint64_t first_byte = part.first_block * block_bytes;
    const std::uint64_t bytes = part.num_blocks * block_bytes;
    DeviceBuffer<std::byte> own;
    if (host != nullptr) own = {memory, bytes, "result elements"};
    std::byte* const to = host != nullptr ? own.data() : whole.get() + first_byte;
    pipeline.events().begin_panel(stream, {.pairs = part.num_pairs, .panel = stats.num_panels++});
    pipeline.events().timed(Stage::multiply, stream, [&] {
      list.multiply(
          part,
          {.a = of_a.data(), .b = of_b.data(), .c = to, .old = of_c.data(), .alpha = call.alpha, .beta = call.beta},
          stream.get());
    });
    if (host != nullptr) {
      if (to_host == nullptr)
        to_host = static_cast<std::byte*>(host->allocate_values(list.num_blocks() * view_a.m * view_a.m));
      pipeline.events().timed(Stage::d2h, stream, [&] {
        check(cudaMemcpyAsync(to_host + first_byte, to, bytes, cudaMemcpyDeviceToHost, stream.get()), "download");
      });
    }
    stats.num_saturated += count_saturated(view_a.type, to, bytes / sizeof(std::uint32_t), memory);
  }
  if (host != nullptr && list.num_blocks() == 0) host->allocate_values(0);
  operands.finish(pipeline.events());
  const Event complete;
  complete.record(stream);
  check(cudaStreamWaitEvent(call.stream, complete.get()), "event");
  arrays.out->values = whole;
  if (host == nullptr && arrays.is_timed) stats.largest = largest_of(view_a.type, of_a, of_b, of_c, memory);
  stats.peak_device_bytes = memory.peak_bytes();
  return stats;
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
  const ProductStats stats =
      multiply_arrays(a, b, {.a = view_a, .b = view_b, .call = call, .out = &c}, &host, pipeline, run);
  host.indptr.resize(host.a.rows / host.a.m + 1);
  host.indices.resize(stats.num_blocks);
  const auto download = [&](std::vector<std::int64_t>& to, const std::shared_ptr<const void>& from) {
    if (to.empty()) return;
    check(cudaMemcpyAsync(to.data(), from.get(), to.size() * sizeof(std::int64_t), cudaMemcpyDeviceToHost, stream),
          "download");
  };
  pipeline.events().timed(Stage::d2h, pipeline.stream(), [&] {
    download(host.indptr, c.indptr);
    download(host.indices, c.indices);
  });
  pipeline.stream().synchronize();
  return stats;
}

}  // namespace

ProductStats multiply_chains(const Source& a, const Source& b, std::uint64_t limit_bytes, const DeviceRun& run,
                             const HostChains* host) {
  ProductStats stats;
  on_device(*run.device, !run.more_devices.empty(), [&] {
    Pipeline pipeline({.device = run.device, .memory = run.memory}, execution_within(limit_bytes), run);
    if (host != nullptr) {
      stats = multiply_host(a, b, *host, pipeline, run);
    } else {
      pipeline.memory().cut_small_buffers();
      stats = multiply_arrays(a, b, *run.arrays, nullptr, pipeline, run);
    }
    StageSpans spans;
    pipeline.events().collect(spans, run.clock.trace(), *run.device);
    add_spans(std::move(spans), run.clock);
  });
  return stats;
}

std::unique_ptr<PlannedProduct> plan_chains(const Source& a, const Source& b, std::uint64_t limit_bytes,
                                            const DeviceRun& run) {
  return make_plan<KeptChains>(run, a, b, limit_bytes);
}

}  // namespace spmm::cuda
