// Products of arrays whose elements are no u16 (include/spmm/chain.hpp), or whose C blocks are given: in host memory on
// the CPU or a device, or in device memory. Nothing is planned: pairs are counted first, and then it is known what is
// needed.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <exception>
#include <functional>
#include <latch>
#include <limits>
#include <list>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "cpu/chains/chains.hpp"
#include "cuda/chains.hpp"
#include "engine/backend_choice.hpp"
#include "engine/impl.hpp"
#include "engine/product.hpp"
#include "io/factor_source.hpp"
#include "plan/panels/row_cut.hpp"
#include "spmm/arrays.hpp"
#include "spmm/error.hpp"

namespace spmm {

/// An operand without its elements. Shapes: as cpu::ChainIndex, cpu::ChainOperand.
struct HostIndex {
  std::vector<std::uint64_t> offsets{};
  std::vector<std::uint32_t> columns{};
  std::vector<std::uint64_t> numbers{};  // none: in the order of the arrays

  [[nodiscard]] cpu::ChainIndex at(std::uint32_t num_columns) const {
    return {.num_rows = static_cast<std::uint32_t>(offsets.size() - 1),
            .num_columns = num_columns,
            .offsets = offsets.data(),
            .columns = columns.data()};
  }
  [[nodiscard]] const std::uint64_t* order() const { return numbers.empty() ? nullptr : numbers.data(); }
  [[nodiscard]] std::uint64_t bytes() const { return 8 * offsets.size() + 4 * columns.size() + 8 * numbers.size(); }
};

namespace {

/// Errors: UsageError.
void check_options(const ProductOptions& options, ElementType type, bool has_c) {
  const auto refuse = [&](bool is_set, const char* option, const char* hint) {
    if (!is_set) return;
    throw UsageError(text("ProductOptions::", option),
                     type == ElementType::u16 ? "does not go with the blocks of C"
                                              : text("is for elements of u16, not of ", element_name(type)),
                     hint);
  };
  refuse(options.kernel != "auto", "kernel", "leave it at auto");
  refuse(options.transpose_a || options.transpose_b, "transpose_a, transpose_b", "pass arrays of the transpose");
  refuse(options.verify_blocks != 0 || options.verify_full, "verify_blocks, verify_full",
         "multiply on another device: the result has the same bits");
  refuse(type != ElementType::u16 && options.on_saturation == OnSaturation::error, "on_saturation = error",
         "leave it out: nothing saturates");
  refuse(!options.selection.is_all(), "selection", "leave it out, and drop elements of the result");
  if (!has_c || options.rows == RowRange{}) return;
  throw UsageError("ProductOptions::rows", "does not go with the blocks of C",
                   "pass arrays of some block rows of A and C");
}

/// Bytes of a matrix that is read, and those that are needed while it is.
std::uint64_t array_bytes(const MatrixHeader& header) {
  const std::uint64_t values = std::uint64_t{header.m} * header.m * sizeof(std::uint16_t);
  return header.num_blocks * (sizeof(std::int64_t) + values) + 8 * (std::uint64_t{header.blocks_per_side()} + 1);
}
std::uint64_t reading_bytes(const MatrixHeader& header) {
  return array_bytes(header) + header.num_blocks * (sizeof(BlockIndex) + sizeof(std::uint32_t));
}

/// Begins of the rows, all others than `rows` empty. Shapes: [block rows + 1]. Errors: UsageError (no such rows).
template <class Offset>
std::vector<Offset> offsets_of(const BsrView<std::uint16_t>& view, RowRange rows) {
  const std::uint64_t num_rows = view.rows / view.m;
  rows = checked_rows(rows, static_cast<std::uint32_t>(num_rows));
  std::vector<Offset> offsets(num_rows + 1);
  for (std::uint64_t r = 0; r <= num_rows; ++r) {
    offsets[r] = static_cast<Offset>(view.indptr[std::clamp<std::uint64_t>(r, rows.first, rows.end)]);
  }
  return offsets;
}

/// Sorts the blocks of each row that are not. Values: source = of the view, which is checked but for duplicates.
/// Errors: FormatError (a block is stored twice); UsageError (no such rows).
HostIndex index_of(const BsrView<std::uint16_t>& view, RowRange rows, const Source& source, const Run& run) {
  constexpr std::uint64_t kRowsAtOnce = 1024;
  HostIndex index{.offsets = offsets_of<std::uint64_t>(view, rows),
                  .columns = std::vector<std::uint32_t>(view.indices.size())};
  const auto for_rows = [&](const std::function<void(std::uint64_t begin, std::uint64_t end)>& body) {
    run.parallel_for(index.offsets.size() - 1, kRowsAtOnce, [&](std::uint64_t first, std::uint64_t last) {
      run.check_cancelled();
      for (std::uint64_t r = first; r < last; ++r) body(index.offsets[r], index.offsets[r + 1]);
    });
  };
  std::vector<std::uint32_t>& columns = index.columns;
  std::atomic<bool> ascends{true};
  for_rows([&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t x = begin; x < end; ++x) {
      columns[x] = static_cast<std::uint32_t>(view.indices[x]);
      if (x > begin && columns[x] <= columns[x - 1]) ascends = false;
    }
  });
  if (ascends) return index;
  std::vector<std::uint64_t>& numbers = index.numbers;
  numbers.resize(columns.size());
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  for_rows([&](std::uint64_t begin, std::uint64_t end) {
    const auto at = [&](std::uint64_t x) { return numbers.begin() + static_cast<std::ptrdiff_t>(x); };
    std::sort(at(begin), at(end), [&](std::uint64_t x, std::uint64_t y) { return view.indices[x] < view.indices[y]; });
    for (std::uint64_t x = begin; x < end; ++x) {
      columns[x] = static_cast<std::uint32_t>(view.indices[numbers[x]]);
      if (x == begin || columns[x] != columns[x - 1]) continue;
      throw FormatError(text(source.name(), ", ", source.place(std::max(numbers[x], numbers[x - 1]))),
                        text("the block was stored before in ", source.place(std::min(numbers[x], numbers[x - 1]))),
                        "remove one of the two, or merge them");
    }
  });
  return index;
}

std::uint32_t num_columns_of(const BsrView<std::uint16_t>& view) {
  return static_cast<std::uint32_t>(view.cols / view.m);
}

/// Where columns are far more than blocks, those with blocks get numbers in order, and B and C (may be null) have these
/// instead. Returns the columns by their numbers; nothing if all stays as it is.
std::vector<std::uint32_t> number_columns(HostIndex& b, HostIndex* c, std::uint32_t num_columns) {
  constexpr std::uint64_t kColumnsPerBlock = 16;  // places of a thread take about as much memory as B's blocks
  constexpr std::uint64_t kFewColumns = 1u << 16;
  const std::uint64_t num_blocks = b.columns.size() + (c == nullptr ? 0 : c->columns.size());
  if (num_columns <= std::max(kFewColumns, kColumnsPerBlock * num_blocks)) return {};
  std::vector<std::uint32_t> names;
  names.reserve(num_blocks);
  names = b.columns;
  if (c != nullptr) names.insert(names.end(), c->columns.begin(), c->columns.end());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const auto number = [&](HostIndex& index) {
    for (std::uint32_t& column : index.columns) {
      column = static_cast<std::uint32_t>(std::lower_bound(names.begin(), names.end(), column) - names.begin());
    }
  };
  number(b);
  if (c != nullptr) number(*c);
  return names;
}

/// Largest absolute value of integers; 0 of floats.
template <class T>
double magnitude(std::span<const T> values) {
  if constexpr (std::is_integral_v<T>) {
    T least = 0;
    T largest = 0;
    for (const T value : values) {
      least = std::min(least, value);
      largest = std::max(largest, value);
    }
    return std::max(-static_cast<double>(least), static_cast<double>(largest));
  }
  return 0;
}

/// Whether a sum of C may leave 63 bits, as far as sizes tell. Values: alpha, beta = one int64, or null.
bool may_overflow(const ProductStats& stats, std::uint32_t m, const void* alpha, const void* beta) {
  const auto factor = [](const void* number, double usual) {
    return number == nullptr ? usual : std::abs(static_cast<double>(*static_cast<const std::int64_t*>(number)));
  };
  const double terms = static_cast<double>(stats.max_row_pairs) * m;
  const double chain = stats.largest.a * stats.largest.b * terms;
  return factor(alpha, 1) * chain + factor(beta, 0) * stats.largest.c >= 0x1p63;
}

/// Host or device memory of the operands' pairs and the result, for evenly spread blocks.
std::uint64_t expected_bytes(const plan::Counts& expected, ElementType type) {
  constexpr double kPairBytes = 8;
  constexpr double kIndexBytes = 24;  // of a block: keys, numbers, columns
  const double elements = static_cast<double>(expected.m()) * expected.m();
  return static_cast<std::uint64_t>(
      expected.num_pairs * kPairBytes + static_cast<double>(expected.num_blocks()) * kIndexBytes +
      expected.num_c_blocks * (kIndexBytes + elements * static_cast<double>(element_bytes(result_of(type)))));
}

/// What is reported as the plan of a product that was not planned.
Plan plan_of(const ProductStats& stats, const plan::Limits& limits) {
  Plan plan;
  plan.backend = limits.backend;
  plan.kernel = "chains";
  plan.exact = true;
  plan.num_threads = limits.num_threads;
  plan.host_limit_bytes = limits.host_bytes;
  plan.device_limit_bytes = limits.gpus.empty() ? 0 : limits.gpus.front().bytes;
  plan.expected_pairs = static_cast<double>(stats.pairs);
  plan.expected_output_blocks = static_cast<double>(stats.num_blocks);
  return plan;
}

/// An operand whose elements nobody reads: what is checked of it is the same for all types.
template <class T>
BsrView<std::uint16_t> without_type(const BsrView<T>& view) {
  return {.rows = view.rows,
          .cols = view.cols,
          .m = view.m,
          .indptr = view.indptr,
          .indices = view.indices,
          .data = {reinterpret_cast<const std::uint16_t*>(view.data.data()), view.data.size()}};
}

/// The same, if its elements may be missing.
template <class T>
BsrView<std::uint16_t> without_values(const BsrView<T>& view) {
  BsrView<std::uint16_t> out = without_type(view);
  out.data = {out.data.data(), view.indices.size() * view.m * view.m};
  return out;
}

/// Errors: ShapeError, UsageError.
template <class T>
void check_result(const BsrView<T>& a, const BsrView<T>& b, const Accumulation<ProductOf<T>>& onto) {
  const auto* const c = onto.c;
  if (c == nullptr && onto.beta == 0) return;
  if (c == nullptr || (onto.beta != 0 && c->data.size() != c->indices.size() * c->m * c->m)) {
    throw UsageError("Accumulation::beta", "is not 0, and there are no elements of C to be added",
                     "pass c with its data");
  }
  if (c->rows == a.rows && c->cols == b.cols && c->m == a.m) return;
  throw ShapeError(
      "matrix C",
      text("is ", c->rows, " x ", c->cols, ", m = ", c->m, "; the product is ", a.rows, " x ", b.cols, ", m = ", a.m),
      "pass one of that size");
}

}  // namespace

/// A product of arrays in host memory.
struct Engine::Impl::HostProduct {
  ElementType type;
  BsrView<std::uint16_t> a;
  BsrView<std::uint16_t> b;
  RowRange rows;
  std::vector<std::int64_t>& indptr;
  std::vector<std::int64_t>& indices;
  void* data;  // the vector of the result's elements
  std::function<void*(std::uint64_t num_elements)> allocate_values;
  std::optional<BsrView<std::uint16_t>> c;  // as Accumulation
  const Source* source_c;                   // of c
  bool is_mask;
  const void* alpha;
  const void* beta;
  std::uint64_t held_bytes;  // of operands, beside what the product needs
  Magnitudes largest;
};

void Engine::Impl::multiply_chains(const Source& a, const Source& b, const ProductOptions& options,
                                   ProductRecord& record, HostProduct* host) {
  const ElementType type = host == nullptr ? record.arrays->a.type : host->type;
  MemoryBudget of_caller;
  MemoryShare share(record.brings_memory() ? of_caller : budget_);
  cuda::DeviceRun run = run_of(options, record.clock, &share);
  std::list<MemoryShare> more_shares;
  const plan::Limits limits = devices_.choose({a, b}, options, record, "", more_shares, run);
  ProductStats stats;
  if (limits.backend == Backend::cuda) {
    run.arrays = record.arrays;
    const std::uint64_t limit = limits.gpus.front().bytes;
    const MemoryBytes need{.host = 0, .device = std::min(limit, expected_bytes(expected_of({a, b}), type))};
    share.reserve(need, run.cancel);
    for (const cuda::DeviceUse& use : run.more_devices) use.memory->reserve(need, run.cancel);
    stats = host == nullptr ? cuda::multiply_chains(a, b, limit, run) : multiply_uploaded(a, b, *host, limits, run);
  } else {
    stats = multiply_on_host(a, b, *host, limits, run);
  }
  record.report.element_type = type;
  fill_report({a, b}, stats, plan_of(stats, limits), record.report);
  if (host != nullptr) stats.largest = host->largest;
  if (result_of(type) == ElementType::i64) {
    const void* const alpha = host != nullptr ? host->alpha : record.arrays->call.alpha;
    const void* const beta = host != nullptr ? host->beta : record.arrays->call.beta;
    record.report.may_overflow = may_overflow(stats, record.report.a.m, alpha, beta);
  }
  record.report.plan.rows = checked_rows(options.rows, a.header().blocks_per_side());
}

namespace {

/// Of the C that is given. Errors: FormatError.
HostIndex index_of_c(const BsrView<std::uint16_t>& c, const Source& source, const Run& run) {
  HostIndex index = index_of(c, {}, source, run);
  if (index.numbers.empty()) return index;
  throw FormatError(source.name(), "the blocks of a row do not ascend", "sort them");
}

/// Some rows of a matrix in the form that devices read; the others are empty.
struct RowArrays {
  RowArrays(const BsrView<std::uint16_t>& matrix, RowRange rows, ElementType type)
      : offsets(offsets_of<std::int64_t>(matrix, rows)) {
    const auto first = static_cast<std::uint64_t>(offsets.front());
    for (std::int64_t& offset : offsets) offset -= static_cast<std::int64_t>(first);
    indices.resize(static_cast<std::size_t>(offsets.back()));
    for (std::size_t x = 0; x < indices.size(); ++x) indices[x] = matrix.indices[first + x];
    const auto* const values = reinterpret_cast<const std::byte*>(matrix.data.data());  // null if nobody reads them
    view = {.rows = matrix.rows,
            .cols = matrix.cols,
            .m = matrix.m,
            .num_blocks = indices.size(),
            .indptr = offsets.data(),
            .indices = indices.data(),
            .index_bytes = sizeof(std::int64_t),
            .values = values == nullptr ? nullptr : values + first * matrix.m * matrix.m * element_bytes(type),
            .type = type};
  }
  RowArrays(const RowArrays&) = delete;
  RowArrays& operator=(const RowArrays&) = delete;

  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> indices{};
  DeviceBsrView view{};
};

/// What one device computes, and what went wrong.
struct DevicePart {
  explicit DevicePart(TraceLog* trace) : clock(cuda::stage_hooks(), trace) {}

  StageClock clock;
  std::vector<std::int64_t> indptr{};  // of all rows
  std::vector<std::int64_t> indices{};
  std::uint64_t num_elements = 0;
  bool has_counted = false;  // these
  ProductStats stats{};
  std::exception_ptr failure{};
};

/// What all of them did.
ProductStats together(const std::deque<DevicePart>& parts, const plan::Limits& limits, StageClock& clock) {
  ProductStats all;
  std::vector<ProductStats> stats;
  for (const DevicePart& part : parts) {
    const ProductStats& one = stats.emplace_back(part.stats);
    all.num_blocks += one.num_blocks;
    all.pairs += one.pairs;
    all.num_panels += one.num_panels;
    all.num_saturated += one.num_saturated;
    all.peak_device_bytes = std::max(all.peak_device_bytes, one.peak_device_bytes);
    all.max_row_pairs = std::max(all.max_row_pairs, one.max_row_pairs);
  }
  all.device = names_of(stats);
  for (std::size_t s = 0; s < kStageNames.size(); ++s) {
    double longest = 0;
    for (const DevicePart& part : parts) longest = std::max(longest, part.clock.totals(static_cast<Stage>(s)).s);
    clock.add_seconds(static_cast<Stage>(s), longest);
  }
  for (std::size_t d = 0; d < stats.size() && stats.size() > 1; ++d) {
    const double share = static_cast<double>(stats[d].pairs) / std::max(1.0, static_cast<double>(all.pairs));
    all.shares.push_back({.number = limits.gpus[d].number,
                          .name = stats[d].device,
                          .share = share,
                          .pairs = stats[d].pairs,
                          .num_panels = stats[d].num_panels,
                          .num_blocks = stats[d].num_blocks,
                          .multiply_s = parts[d].clock.totals(Stage::multiply).s});
  }
  return all;
}

}  // namespace

/// Each device has all of B and some rows of A, and writes its part of C.
ProductStats Engine::Impl::multiply_uploaded(const Source& a, const Source& b, const HostProduct& host,
                                             const plan::Limits& limits, const cuda::DeviceRun& run) {
  struct OtherFailed {};
  std::vector<cuda::DeviceUse> uses{{.device = run.device, .memory = run.memory}};
  uses.insert(uses.end(), run.more_devices.begin(), run.more_devices.end());
  const RowRange rows = checked_rows(host.rows, static_cast<std::uint32_t>(host.a.rows / host.a.m));
  std::vector<std::uint32_t> begins{rows.first, rows.end};
  if (uses.size() > 1 || rows.first != 0) {  // a device that sees some rows cannot name a place in the whole arrays
    const HostIndex index_a = index_of(host.a, rows, a, run);
    const HostIndex index_b = index_of(host.b, {}, b, run);
    if (host.c) index_of_c(*host.c, *host.source_c, run);
    begins = plan::cut_by_weight(
        cpu::count_pairs(index_a.at(num_columns_of(host.a)), index_b.at(num_columns_of(host.b)), nullptr, run), 0, rows,
        static_cast<std::uint32_t>(uses.size()));
  }
  const RowArrays of_b(host.b, {}, host.type);
  std::deque<DevicePart> parts;
  for (std::size_t d = 0; d < uses.size(); ++d) parts.emplace_back(run.clock.trace());
  std::latch counted(static_cast<std::ptrdiff_t>(uses.size()));  // elements of C, or the device has failed
  std::atomic<bool> has_failed{false};
  std::mutex mutex;
  std::byte* elements = nullptr;  // of C; guarded by mutex
  const auto fail = [&](DevicePart& part, std::exception_ptr failure) {
    part.failure = std::move(failure);
    has_failed = true;
    if (!part.has_counted) counted.count_down();
  };
  const auto place = [&](std::size_t d, std::uint64_t num_elements) {
    parts[d].num_elements = num_elements;
    parts[d].has_counted = true;
    counted.arrive_and_wait();
    if (has_failed) throw OtherFailed{};
    std::uint64_t before = 0;
    std::uint64_t all = 0;
    for (std::size_t x = 0; x < parts.size(); ++x) {
      if (x == d) before = all;
      all += parts[x].num_elements;
    }
    const std::lock_guard lock(mutex);
    if (elements == nullptr) elements = static_cast<std::byte*>(host.allocate_values(all));
    return elements + before * element_bytes(result_of(host.type));
  };
  const auto compute = [&](std::size_t d) noexcept {
    DevicePart& part = parts[d];
    const RowRange own_rows{.first = begins[d], .end = begins[d + 1]};
    try {
      const RowArrays of_a(host.a, own_rows, host.type);
      std::optional<RowArrays> of_c;
      if (host.c) of_c.emplace(*host.c, own_rows, result_of(host.type));
      const cuda::HostChains chains{
          .a = of_a.view,
          .b = of_b.view,
          .indptr = part.indptr,
          .indices = part.indices,
          .allocate_values = [&, d](std::uint64_t num_elements) { return place(d, num_elements); },
          .call = {.c = host.c ? std::optional(of_c->view) : std::nullopt,
                   .is_mask = host.is_mask,
                   .alpha = host.alpha,
                   .beta = host.c ? host.beta : nullptr}};
      const cuda::DeviceRun own{{.clock = part.clock,
                                 .on_progress = run.on_progress,
                                 .cancel = run.cancel,
                                 .num_threads = run.num_threads,
                                 .workers = run.workers,
                                 .memory = uses[d].memory},
                                uses[d].device,
                                run.more_devices};
      part.stats = cuda::multiply_chains(a, b, limits.gpus[d].bytes, own, &chains);
    } catch (const OtherFailed&) {
    } catch (...) {
      fail(part, std::current_exception());
    }
  };
  {
    std::vector<std::jthread> threads;  // one for each device but the first, which has this one
    for (std::size_t d = 1; d < uses.size(); ++d) {
      threads.push_back(start_thread([&, d] { compute(d); }));
      if (threads.back().joinable()) continue;
      fail(parts[d], std::make_exception_ptr(DeviceError(text("GPU ", limits.gpus[d].number),
                                                         "the system starts no thread for it",
                                                         "raise the limit of threads, or use one device")));
    }
    compute(0);
  }
  for (const DevicePart& part : parts) {
    if (part.failure) std::rethrow_exception(part.failure);
  }
  const ProductStats all = together(parts, limits, run.clock);
  host.indptr = std::move(parts.front().indptr);
  host.indices = std::move(parts.front().indices);
  if (parts.size() > 1) reserve_pages(host.indices, all.num_blocks);
  for (std::size_t d = 1; d < parts.size(); ++d) {
    for (std::size_t r = 0; r < host.indptr.size(); ++r) host.indptr[r] += parts[d].indptr[r];
    host.indices.insert(host.indices.end(), parts[d].indices.begin(), parts[d].indices.end());
  }
  return all;
}

ProductStats Engine::Impl::multiply_on_host(const Source& a, const Source& b, const HostProduct& host,
                                            const plan::Limits& limits, cuda::DeviceRun& run) {
  run.num_threads = limits.num_threads;
  const std::uint64_t limit = limits.host_bytes;
  const auto check_fits = [&](std::uint64_t need) {
    if (need <= limit) return;
    throw OutOfMemory("a product in memory", text("needs ", human_bytes(need), ", the limit is ", human_bytes(limit)),
                      "raise EngineOptions::memory_limit_bytes, or multiply some block rows of A at a time");
  };
  const std::uint64_t num_rows = host.a.rows / host.a.m;
  const std::uint64_t rows_bytes = (2 * num_rows + 1) * sizeof(std::uint64_t);  // pairs, begins
  const auto index_bytes = [](const BsrView<std::uint16_t>& view) {
    return (view.rows / view.m + 1) * sizeof(std::uint64_t) + view.indices.size() * sizeof(std::uint32_t);
  };
  check_fits(rows_bytes + index_bytes(host.a) + index_bytes(host.b) + (host.c ? index_bytes(*host.c) : 0));
  std::optional<HostIndex> index_a;
  std::optional<HostIndex> index_b;
  std::optional<HostIndex> index_c;
  std::vector<std::uint32_t> names;
  {
    const auto timing = run.clock.scope(Stage::build);
    index_a = index_of(host.a, host.rows, a, run);
    index_b = index_of(host.b, {}, b, run);
    if (host.c) index_c = index_of_c(*host.c, *host.source_c, run);
    names = number_columns(*index_b, host.c ? &*index_c : nullptr, num_columns_of(host.b));
  }
  const std::uint32_t num_columns = names.empty() ? num_columns_of(host.b) : static_cast<std::uint32_t>(names.size());
  const cpu::ChainIndex at_a = index_a->at(num_columns_of(host.a));
  const cpu::ChainIndex at_b = index_b->at(num_columns);
  const cpu::ChainIndex at_c = host.c ? index_c->at(num_columns) : cpu::ChainIndex{};
  const cpu::ChainIndex* const given = host.c ? &at_c : nullptr;
  std::vector<std::uint64_t> row_pairs;
  std::uint64_t most_blocks = host.c ? index_c->columns.size() : 0;
  {
    const auto timing = run.clock.scope(Stage::count);
    row_pairs = cpu::count_pairs(at_a, at_b, given, run);
    if (!host.c) {
      for (const std::uint64_t pairs : row_pairs) most_blocks += std::min<std::uint64_t>(pairs, num_columns);
    }
  }
  const std::uint64_t elements = std::uint64_t{host.a.m} * host.a.m;
  const std::uint64_t values_bytes = elements * element_bytes(result_of(host.type));
  const std::uint64_t block_bytes = values_bytes + sizeof(std::int64_t);
  std::uint64_t need = host.held_bytes + rows_bytes + index_a->bytes() + index_b->bytes() +
                       (host.c ? index_c->bytes() : 0) + names.size() * sizeof(std::uint32_t);
  check_fits(need);
  const cpu::ChainMemory memory =
      cpu::chain_memory(num_columns, values_bytes, most_blocks, run.num_threads, (limit - need) / 2);
  need += memory.bytes;
  check_fits(need + (host.c ? most_blocks * block_bytes : 0));
  most_blocks = std::min(most_blocks, (limit - need) / block_bytes);  // C has far fewer than pairs, as a rule
  run.memory->reserve({.host = need + most_blocks * block_bytes, .device = 0}, run.cancel);
  const auto timing = run.clock.scope(Stage::multiply);
  host.indptr.assign(num_rows + 1, 0);
  reserve_pages(host.indices, most_blocks);
  const cpu::PatternUse use = with_element_type(host.type, [&]<class T>() {
    auto& data = *static_cast<std::vector<ProductOf<T>>*>(host.data);
    reserve_pages(data, most_blocks * elements);
    const auto values = [](const BsrView<std::uint16_t>& view) { return reinterpret_cast<const T*>(view.data.data()); };
    return cpu::multiply_chains<T>(
        {.a = {.at = at_a, .values = values(host.a), .numbers = index_a->order()},
         .b = {.at = at_b, .values = values(host.b), .numbers = index_b->order()},
         .m = host.a.m,
         .row_pairs = row_pairs,
         .c = given,
         .scaling = scaling_of<typename Chain<T>::Sum>(host.alpha, host.beta, host.c ? host.c->data.data() : nullptr)},
        {.indptr = host.indptr, .indices = host.indices, .data = data, .most_blocks = most_blocks, .names = names},
        memory, limits.isa, run);
  });
  if (use.missing && !host.is_mask) throw_missing_block(use.missing->i, use.missing->j);
  return {.num_blocks = host.indices.size(),
          .pairs = use.num_pairs,
          .num_panels = 1,
          .device = std::string(cpu::isa_name(limits.isa)),
          .max_row_pairs = row_pairs.empty() ? 0 : *std::max_element(row_pairs.begin(), row_pairs.end())};
}

template <class T>
BsrMatrix<ProductOf<T>> Engine::Impl::multiply_arrays(const BsrView<T>& a, const BsrView<T>& b,
                                                      const ProductOptions& options, ProductRecord& record,
                                                      const Accumulation<ProductOf<T>>& onto,
                                                      std::uint64_t held_bytes) {
  check_options(options, kElementType<T>, onto.c != nullptr);
  check_result<T>(a, b, onto);
  BsrMatrix<ProductOf<T>> c{.rows = a.rows, .cols = b.cols, .m = a.m};
  HostProduct product{.type = kElementType<T>,
                      .a = without_type(a),
                      .b = without_type(b),
                      .rows = options.rows,
                      .indptr = c.indptr,
                      .indices = c.indices,
                      .data = &c.data,
                      .allocate_values = [&](std::uint64_t num_elements) -> void* {
                        reserve_pages(c.data, num_elements);
                        c.data.resize(num_elements);
                        return c.data.data();
                      },
                      .c = onto.c == nullptr ? std::nullopt : std::optional(without_values(*onto.c)),
                      .source_c = nullptr,
                      .is_mask = onto.is_mask,
                      .alpha = &onto.alpha,
                      .beta = onto.beta == 0 ? nullptr : &onto.beta,
                      .held_bytes = held_bytes,
                      .largest = {}};
  const std::uint32_t n = padded_side(product.a, product.b);
  const auto source_a = make_bsr_source(product.a, n, "matrix A");
  const auto source_b = make_bsr_source(product.b, n, "matrix B");
  const auto source_c = product.c ? make_bsr_source(*product.c, n, "matrix C") : nullptr;
  product.source_c = source_c.get();
  if constexpr (result_of(kElementType<T>) == ElementType::i64) {
    product.largest = {.a = magnitude(a.data), .b = magnitude(b.data)};
    if (product.beta != nullptr) product.largest.c = magnitude(onto.c->data);
  }
  ProductOptions chosen =
      options;  // the CPU unless a device is asked for: to copy the result takes longer than the sums
  if (devices_.insisted_backend(options) != Backend::cuda) chosen.backend = Backend::cpu;
  multiply_chains(*source_a, *source_b, chosen, record, &product);
  if constexpr (std::is_same_v<T, std::uint16_t>) {
    record.report.saturated_elements = static_cast<std::uint64_t>(std::count(c.data.begin(), c.data.end(), kMaxVal));
  }
  return c;
}

template <class T>
BsrMatrix<ProductOf<T>> Engine::multiply(const BsrView<T>& a, const BsrView<T>& b, const ProductOptions& options,
                                         Report* report, const Accumulation<ProductOf<T>>& onto) {
  if constexpr (std::is_same_v<T, std::uint16_t>) {
    if (onto.alpha != 1 || onto.beta != 0) {
      throw UsageError("Accumulation::alpha, beta", "are not for elements of u16", "leave them at 1 and 0");
    }
    if (onto.c == nullptr) return multiply_saturating(*this, a, b, options, report);
  }
  ProductRecord record(options);
  auto c = own().multiply_arrays(a, b, options, record, onto);
  if constexpr (std::is_same_v<T, std::uint16_t>) {
    BsrMatrix<std::uint32_t> none;
    check_saturation(options, record.report, *make_bsr_sink(none, 0, 0), "the result");
  }
  record.close();
  if (report != nullptr) *report = record.report;
  return c;
}

namespace {

/// Writes the blocks that are not zero. Returns how many. Errors: what the sink throws.
std::uint64_t write_blocks(const BsrMatrix<std::uint32_t>& c, Sink& sink) {
  constexpr std::uint64_t kChunkBytes = 4u << 20;
  const std::uint64_t elements = std::uint64_t{c.m} * c.m;
  const std::uint64_t record = output_record_bytes(c.m);
  std::uint64_t num_written = 0;
  auto chunk = std::make_shared<std::vector<std::byte>>();
  const auto flush = [&] {
    if (chunk->empty()) return;
    sink.write(num_written, *chunk, [chunk] {});
    num_written += chunk->size() / record;
    chunk = std::make_shared<std::vector<std::byte>>();
  };
  sink.expect(c.m, c.indices.size());
  for (std::size_t row = 0; row + 1 < c.indptr.size(); ++row) {
    for (auto x = static_cast<std::size_t>(c.indptr[row]); x < static_cast<std::size_t>(c.indptr[row + 1]); ++x) {
      const std::uint32_t* const values = c.data.data() + x * elements;
      if (std::all_of(values, values + elements, [](std::uint32_t value) { return value == 0; })) continue;
      const BlockIndex index{static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(c.indices[x])};
      const auto append = [&](const void* from, std::size_t bytes) {
        const auto* const begin = static_cast<const std::byte*>(from);
        chunk->insert(chunk->end(), begin, begin + bytes);
      };
      append(&index, sizeof index);
      append(values, elements * sizeof *values);
      if (chunk->size() >= kChunkBytes) flush();
    }
  }
  flush();
  return num_written;
}

}  // namespace

void Engine::Impl::multiply_given(const Inputs& inputs, const Source& pattern, Sink& sink, const std::string& out,
                                  const ProductOptions& product, ProductRecord& record) {
  ProductOptions plain = product;  // of operands that are read as the options have them
  plain.transpose_a = plain.transpose_b = false;
  plain.rows = {};
  check_options(plain, ElementType::u16, true);
  check_shapes(inputs.a, pattern);
  const Inputs operands = as_multiplied(inputs.a, inputs.b, product, run_of(product, record.clock));
  const Source& a = operands.a;
  const Source& b = operands.b;
  const std::uint64_t held = array_bytes(a.header()) + array_bytes(b.header()) + array_bytes(pattern.header());
  const std::uint64_t need =
      held + std::max({reading_bytes(a.header()), reading_bytes(b.header()), reading_bytes(pattern.header())}) +
      pattern.header().num_blocks * output_record_bytes(pattern.header().m);
  {
    MemoryShare share(budget_);
    ProductOptions on_cpu = plain;
    on_cpu.backend = Backend::cpu;
    cuda::DeviceRun run = run_of(on_cpu, record.clock, &share);
    std::list<MemoryShare> none;
    const std::uint64_t limit = devices_.choose(operands, on_cpu, record, "", none, run).host_bytes;
    if (need > limit) {
      throw OutOfMemory("a product of given blocks",
                        text("needs up to ", human_bytes(need), " in memory, the limit is ", human_bytes(limit),
                             "; it does not run out of core"),
                        "raise EngineOptions::memory_limit_bytes, or multiply some block rows at a time");
    }
  }
  std::optional<BsrMatrix<std::uint16_t>> of_a;
  std::optional<BsrMatrix<std::uint16_t>> of_b;
  BsrMatrix<std::uint16_t> given;
  {
    const auto timing = record.clock.scope(Stage::read);
    of_a = read_bsr(a);
    of_b = read_bsr(b);
    given = read_bsr(pattern);
  }
  const BsrView<std::uint32_t> c{
      .rows = given.rows, .cols = given.cols, .m = given.m, .indptr = given.indptr, .indices = given.indices};
  const BsrMatrix<std::uint32_t> result =
      multiply_arrays(of_a->view(), of_b->view(), plain, record, {.c = &c, .is_mask = true}, held);
  Report& report = record.report;
  {
    const auto timing = record.clock.scope(Stage::write);
    report.c_blocks = write_blocks(result, sink);
    report.c.num_blocks = static_cast<std::uint32_t>(report.c_blocks);
    sink.finish(report.c);
  }
  describe_operands(a.header(), product, report.plan);
  report.a = inputs.a.header();  // of all rows
  check_saturation(product, report, sink, out);
  sink.publish();
}

#define SPMM_MULTIPLY(T, name)                                                                                   \
  template BsrMatrix<ProductOf<T>> Engine::multiply(const BsrView<T>&, const BsrView<T>&, const ProductOptions&, \
                                                    Report*, const Accumulation<ProductOf<T>>&);
SPMM_ELEMENT_TYPES(SPMM_MULTIPLY)

}  // namespace spmm
