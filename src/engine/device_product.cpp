// Products of arrays in device memory: what is checked before a device is started, and plans.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "cuda/chains.hpp"
#include "engine/backend_choice.hpp"
#include "engine/impl.hpp"
#include "engine/product.hpp"
#include "plan/choice.hpp"
#include "spmm/device.hpp"
#include "spmm/error.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm {
namespace {

/// An operand in messages, which are made where one is wrong: there may be 10^5 products.
struct OperandName {
  const char* matrix = "";
  std::optional<std::uint64_t> product{};

  [[nodiscard]] std::string str() const { return product ? text(matrix, ", product ", *product) : matrix; }
};

/// Errors: FormatError.
void check_sides(const DeviceBsrView& view, const OperandName& name) {
  if (view.m == 0 || view.m > kMaxBlockDim) {
    throw FormatError(text(name.str(), ", m"), text("found ", view.m, ", expected 1 to ", kMaxBlockDim),
                      "pass blocks of such a side");
  }
  for (const auto& [side, what] : {std::pair{view.rows, "rows"}, {view.cols, "cols"}}) {
    if (side == 0 || side > 0xFFFF'FFFFu || side % view.m != 0) {
      throw FormatError(text(name.str(), ", ", what),
                        text("found ", side, ", expected a multiple of m = ", view.m, " from ", view.m, " to 2^32 - 1"),
                        "pad the matrix");
    }
  }
  if (view.index_bytes != 4 && view.index_bytes != 8) {
    throw FormatError(text(name.str(), ", index_bytes"), text("found ", view.index_bytes, ", expected 4 or 8"),
                      "pass indices of 32 or 64 bits");
  }
  if (view.index_bytes == 4 && std::max(view.rows, view.cols) / view.m > 0x7FFF'FFFFu) {
    throw FormatError(text(name.str(), ", index_bytes"), "4 bytes do not number 2^31 block rows or columns",
                      "pass indices of 64 bits");
  }
  const std::uint64_t places = (view.rows / view.m) * (view.cols / view.m);
  if (view.num_blocks > std::min<std::uint64_t>(places, 0xFFFF'FFFFu)) {
    throw FormatError(text(name.str(), ", num_blocks"),
                      text("found ", view.num_blocks, ", the matrix has ", places, " places"),
                      "pass each block once, 2^32 - 1 at most");
  }
}

/// Errors: ShapeError.
void check_types(const DeviceBsrView& a, const DeviceBsrView& b, const std::string& names) {
  if (a.type == b.type) return;
  throw ShapeError(names, text("elements of ", element_name(a.type), " against ", element_name(b.type)),
                   "convert one of them");
}

/// Errors: ShapeError, FormatError.
void check_pair(const DeviceBsrView& a, const DeviceBsrView& b, std::optional<std::uint64_t> product = {}) {
  check_sides(a, {"matrix A", product});
  check_sides(b, {"matrix B", product});
  check_types(a, b, OperandName{"matrix A and matrix B", product}.str());
  if (a.m != b.m || a.cols != b.rows || a.index_bytes != b.index_bytes) {
    throw ShapeError(OperandName{"matrix A and matrix B", product}.str(),
                     text(a.rows, " x ", a.cols, ", m = ", a.m, ", indices of ", a.index_bytes, " bytes against ",
                          b.rows, " x ", b.cols, ", m = ", b.m, ", ", b.index_bytes, " bytes"),
                     "A has as many columns as B has rows, both the same m and indices");
  }
}

/// Errors: ShapeError, FormatError, UsageError.
void check_result(const DeviceBsrView& a, const DeviceBsrView& b, const DeviceCall& call) {
  if (a.type == ElementType::u16) cuda::check_not_scaled(call.alpha, call.beta);
  const std::optional<DeviceBsrView>& c = call.c;
  if (call.beta != nullptr && (!c || (c->values == nullptr && c->num_blocks != 0))) {
    throw UsageError("DeviceCall::beta", "is given, and there are no elements of C to be added",
                     "pass c with its values");
  }
  if (!c) return;
  check_sides(*c, {"matrix C"});
  if (c->rows == a.rows && c->cols == b.cols && c->m == a.m && c->index_bytes == a.index_bytes &&
      c->type == result_of(a.type)) {
    return;
  }
  throw ShapeError("matrix C",
                   text("is ", c->rows, " x ", c->cols, " of ", element_name(c->type), ", m = ", c->m, ", indices of ",
                        c->index_bytes, " bytes; the product is ", a.rows, " x ", b.cols, " of ",
                        element_name(result_of(a.type)), ", m = ", a.m, ", ", a.index_bytes, " bytes"),
                   "pass one of that size and type");
}

/// Side of the square in which both are multiplied. Errors: ShapeError, FormatError.
std::uint32_t common_side(const DeviceBsrView& a, const DeviceBsrView& b) {
  check_pair(a, b);
  return static_cast<std::uint32_t>(std::max({a.rows, a.cols, b.cols}));
}

/// Many products as one: what is known of them before a device is started.
struct ManyProducts {
  cuda::ManyMatrices a{};
  cuda::ManyMatrices b{};
  DevicePair sums{};       // sizes of the two matrices that have all products on the diagonal
  DeviceBsrBatch batch{};  // of the result: sizes, and where the rows of each product begin
};

/// Errors: UsageError if the two matrices cannot be numbered.
void check_numbers(const DeviceBsrView& a, const DeviceBsrView& b) {
  const std::uint64_t most = a.index_bytes == 4 ? 0x7FFF'FFFFu : 0xFFFF'FFFFu;
  const auto require = [](std::uint64_t sum, std::uint64_t limit, const char* what) {
    if (sum <= limit) return;
    throw UsageError("products", text("they have ", sum, " ", what, " together, at most ", limit, " can be numbered"),
                     "split them into several calls");
  };
  for (const std::uint64_t side : {a.rows, a.cols, b.cols}) {
    require(side, 0xFFFF'FFFFu, "rows or columns");
    require(side / a.m, most, "block rows or columns");
  }
  for (const std::uint64_t blocks : {a.num_blocks, b.num_blocks}) require(blocks, most, "blocks of an operand");
}

bool has_sizes_of(const DeviceBsrView& view, const DeviceBsrView& other) {
  return view.rows == other.rows && view.cols == other.cols && view.m == other.m &&
         view.num_blocks == other.num_blocks && view.index_bytes == other.index_bytes && view.type == other.type;
}

/// Errors: FormatError if the arrays of a stack leave the address space.
void check_strides(const DeviceBsrStack& stack, std::uint64_t count, const char* name) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;
  const auto check = [&](std::uint64_t stride, std::uint64_t item, const char* what) {
    if (stride <= kMostBytes / item / count) return;
    throw FormatError(text(name, ", strides, ", what),
                      text("found ", stride, ": no memory holds ", count, " such arrays"),
                      "pass how many numbers or elements there are from one matrix to the next");
  };
  check(stack.strides.indptr, stack.first.index_bytes, "indptr");
  check(stack.strides.indices, stack.first.index_bytes, "indices");
  check(stack.strides.values, element_bytes(stack.first.type), "values");
}

/// Does not look at each product of stacks. Values: at least one product. Errors: ShapeError, FormatError, UsageError
/// (products that do not go together).
ManyProducts check_products(const cuda::ManyMatrices& all_a, const cuda::ManyMatrices& all_b) {
  ManyProducts many{.a = all_a, .b = all_b};
  const bool are_stacks = all_a.stack() != nullptr;
  const std::uint64_t count = all_a.size();
  const std::uint64_t num_seen = are_stacks ? 1 : count;
  const std::uint64_t times = are_stacks ? std::min(count, std::uint64_t{1} << 32) : 1;  // more are too many anyhow
  const DeviceBsrView first = all_a[0];
  many.sums.a = {.rows = 0, .cols = 0, .m = first.m, .index_bytes = first.index_bytes, .type = first.type};
  many.sums.b = many.sums.a;
  DeviceBsrBatch& batch = many.batch;
  batch.num_products = count;
  if (!are_stacks) batch.first_row = {0};
  DevicePair before;
  for (std::uint64_t x = 0; x < num_seen; ++x) {
    const DevicePair one{.a = all_a[x], .b = all_b[x]};
    const bool is_alike = x > 0 && has_sizes_of(one.a, before.a) && has_sizes_of(one.b, before.b);  // checked then
    if (!is_alike) check_pair(one.a, one.b, are_stacks ? std::nullopt : std::optional(x));
    if (one.a.m != first.m || one.a.index_bytes != first.index_bytes || one.a.type != first.type) {
      throw UsageError(
          text("product ", x),
          text("m = ", one.a.m, ", indices of ", one.a.index_bytes, " bytes, elements of ", element_name(one.a.type),
               "; product 0 has m = ", first.m, ", ", first.index_bytes, " bytes, ", element_name(first.type)),
          "pass products of one m, index_bytes and type in a call");
    }
    for (const auto& [view, sum] : {std::pair{&one.a, &many.sums.a}, {&one.b, &many.sums.b}}) {
      sum->rows += times * view->rows;
      sum->cols += times * view->cols;
      sum->num_blocks += times * view->num_blocks;
    }
    if (!are_stacks) batch.first_row.push_back(batch.first_row.back() + one.a.rows / one.a.m);
    batch.all.cols = std::max(batch.all.cols, one.b.cols);
    before = one;
  }
  check_numbers(many.sums.a, many.sums.b);
  if (are_stacks) {
    check_strides(*all_a.stack(), count, "matrix A");
    check_strides(*all_b.stack(), count, "matrix B");
  }
  batch.all.rows = many.sums.a.rows;
  batch.all.m = first.m;
  batch.all.index_bytes = first.index_bytes;
  batch.all.type = result_of(first.type);
  return many;
}

ProductOptions on_device(const ProductOptions& options, const DeviceCall& call, ElementType type) {
  const DeviceAllocator& allocator = call.allocator;
  if (allocator.serves_workspace && !(allocator.allocate && allocator.release)) {
    throw UsageError("DeviceAllocator::serves_workspace", "allocate or release is missing",
                     "set both, or serve results alone");
  }
  std::string why_not;
  if (cuda::num_devices(why_not) == 0) {
    throw DeviceError("arrays in device memory", why_not, "check nvidia-smi, or pass arrays in host memory");
  }
  cuda::check_stream(call.stream);
  const auto refuse = [](bool is_set, const char* option, const char* hint,
                         const std::string& problem = "does not go with arrays in device memory") {
    if (is_set) throw UsageError(text("ProductOptions::", option), problem, hint);
  };
  const std::string problem = type == ElementType::u16 ? "does not go with the blocks of C"
                                                       : text("is for elements of u16, not of ", element_name(type));
  refuse(cuda::wants_chains(type, call) && options.kernel != "auto", "kernel", "leave it at auto", problem);
  refuse(type != ElementType::u16 && options.on_saturation == OnSaturation::error, "on_saturation = error",
         "leave it out: nothing saturates", problem);
  refuse(cuda::wants_chains(type, call) && !options.selection.is_all(), "selection", "leave it out", problem);
  refuse(options.backend == Backend::cpu, "backend = cpu", "leave it out");
  refuse(options.transpose_a || options.transpose_b, "transpose_a, transpose_b", "transpose the arrays on the device");
  refuse(options.rows != RowRange{}, "rows",
         "pass arrays of these block rows: a part of indptr, and what it points at");
  refuse(options.verify_blocks != 0 || options.verify_full, "verify_blocks, verify_full",
         "copy the matrices to the host, or write files, to check a result");
  ProductOptions on_cuda = options;
  on_cuda.backend = Backend::cuda;
  return on_cuda;
}

}  // namespace

/// Stands for an operand in device memory: its header, and how messages name its blocks.
class DeviceSource : public Source {
 public:
  /// Values: many = of many products, the matrices that the view has the sums of.
  DeviceSource(const DeviceBsrView& view, std::uint32_t n, std::string name, const cuda::ManyMatrices& many = {})
      : header_{.n = n, .m = view.m, .num_blocks = static_cast<std::uint32_t>(view.num_blocks)},
        name_(std::move(name)),
        many_(many) {}

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  void check_unchanged() const override {}

  /// Only a product out of core reads records. Errors: OutOfMemory.
  [[noreturn]] void read(std::uint64_t, std::uint64_t, std::byte*) const override {
    throw OutOfMemory(
        name_,
        "the product does not fit the memory of the device at once, and arrays are not sorted into a scratch file",
        "raise EngineOptions::memory_limit_bytes, free device memory, or multiply files or host memory");
  }

  [[nodiscard]] std::string place(std::uint64_t record) const override {
    std::uint64_t own = record;
    for (std::uint64_t x = 0; x < many_.size(); ++x) {
      const std::uint64_t count = many_[x].num_blocks;
      if (own < count) return text("product ", x, ", indices[", own, "]");
      own -= count;
    }
    return text("indices[", record, "]");
  }

  [[nodiscard]] BlockIndex original_index(BlockIndex index) const override {
    for (std::uint64_t x = 0; x < many_.size(); ++x) {
      const DeviceBsrView view = many_[x];
      const auto rows = static_cast<std::uint32_t>(view.rows / view.m);
      if (index.i < rows) break;
      index.i -= rows;
      index.j -= static_cast<std::uint32_t>(view.cols / view.m);
    }
    return index;
  }

 private:
  MatrixHeader header_;
  std::string name_;
  cuda::ManyMatrices many_;
};

/// Rejects records: the result stays on the device.
class DeviceSink : public Sink {
 public:
  void write(std::uint64_t, std::span<const std::byte>, Release) override {
    throw std::logic_error("records of a result that stays on the device");
  }
  void finish(const MatrixHeader&) override {}
  void publish() override {}
};

std::vector<std::uint64_t> fetch_first_blocks(const DeviceBsrBatch& batch) {
  if (batch.first_block == nullptr) return std::vector<std::uint64_t>(batch.num_products + 1);
  return cuda::fetch_indices(batch.first_block.get(), batch.num_products + 1, batch.all.index_bytes, batch.all.device);
}

/// One product, or many as one. Errors: ShapeError, FormatError, UsageError (options that need the host).
class DeviceProduct {
 public:
  DeviceProduct(const DeviceBsrView& a, const DeviceBsrView& b, const DeviceCall& call, const ProductOptions& wanted)
      : n_(common_side(a, b)),
        source_a(a, n_, "matrix A"),
        source_b(b, n_, "matrix B"),
        options(on_device(wanted, call, a.type)),
        batch{.all = {.rows = a.rows, .cols = b.cols, .m = a.m, .index_bytes = a.index_bytes}},
        arrays{.a = a, .b = b, .call = call, .out = &batch.all} {
    batch.all.type = result_of(a.type);
    check_result(a, b, call);
  }
  DeviceProduct(ManyProducts many, const DeviceCall& call, const ProductOptions& wanted)
      : sums_(many.sums),
        n_(static_cast<std::uint32_t>(std::max({sums_.a.rows, sums_.a.cols, sums_.b.cols}))),
        source_a(sums_.a, n_, "matrix A", many.a),
        source_b(sums_.b, n_, "matrix B", many.b),
        options(on_device(wanted, call, sums_.a.type)),
        batch(std::move(many.batch)),
        arrays{.a = sums_.a,
               .b = sums_.b,
               .call = call,
               .out = &batch.all,
               .many_a = many.a,
               .many_b = many.b,
               .batch = &batch} {
    if (!options.selection.is_all()) {
      throw UsageError("ProductOptions::selection", "is not for many products at once", "multiply one at a time");
    }
    if (!call.c && call.alpha == nullptr && call.beta == nullptr) return;
    throw UsageError("DeviceCall::c, alpha, beta", "are not for many products at once", "leave them out");
  }
  DeviceProduct(const DeviceProduct&) = delete;
  DeviceProduct& operator=(const DeviceProduct&) = delete;

  /// Only patterns are multiplied, by kernels that write all C blocks with pairs. Errors: UsageError (another kernel).
  void set_pattern() {
    if (!options.selection.is_all()) {
      throw UsageError("ProductOptions::selection", "is not for plans: they keep all blocks",
                       "multiply without a plan");
    }
    std::string& kernel = options.kernel;
    if (kernel == "auto") kernel = "rows";
    if (kernel != "rows" && kernel != "row-spread" && kernel != "pair-list") {
      throw UsageError("ProductOptions::kernel", text("kernel '", kernel, "' multiplies no patterns"),
                       "use auto, rows, row-spread or pair-list");
    }
    arrays.is_pattern = true;
  }

 private:
  DevicePair sums_;  // of many products
  std::uint32_t n_;

 public:
  DeviceSource source_a;
  DeviceSource source_b;
  DeviceSink sink;
  ProductOptions options;  ///< those of the caller, on CUDA
  DeviceBsrBatch batch;    ///< of a single product: its result alone
  cuda::DeviceArrays arrays;
};

/// What a plan holds; the later goes first.
struct DevicePlan::State {
  State(const DeviceBsrView& a, const DeviceBsrView& b, DeviceCall how, const ProductOptions& options,
        MemoryBudget& budget)
      : view_a(a),
        view_b(b),
        call(std::move(how)),
        record(options),
        product(view_a, view_b, call, options),
        share(call.allocator.serves_workspace ? of_caller : budget) {
    product.set_pattern();
    record.stay_on(product.arrays);
  }

  DeviceBsrView view_a;
  DeviceBsrView view_b;
  DeviceCall call;
  ProductRecord record;
  DeviceProduct product;
  std::vector<std::shared_ptr<cuda::DeviceContext>> devices{};  // as long as the plan
  MemoryBudget of_caller{};
  MemoryShare share;
  std::list<MemoryShare> none{};
  std::optional<cuda::DeviceRun> run{};
  std::unique_ptr<cuda::PlannedProduct> planned{};
};

void Engine::Impl::multiply(DeviceProduct& product, ProductRecord& record, Report* report) {
  product.arrays.is_timed = report != nullptr;
  record.stay_on(product.arrays);
  if (cuda::wants_chains(product.arrays.a.type, product.arrays.call)) {
    multiply_chains(product.source_a, product.source_b, product.options, record);
    check_saturation(product.options, record.report, product.sink, "the result");
  } else {
    multiply(product.source_a, product.source_b, &product.sink, "the result", product.options, record);
  }
  product.batch.all.num_saturated = record.report.saturated_elements;
  if (report == nullptr && record.trace == nullptr) return;  // the peak of the process is read from a file
  record.close();
  if (report != nullptr) *report = record.report;
}

DeviceBsrMatrix Engine::multiply(const DeviceBsrView& a, const DeviceBsrView& b, const DeviceCall& call,
                                 const ProductOptions& options, Report* report) {
  ProductRecord record(options);
  DeviceProduct product(a, b, call, options);
  own().multiply(product, record, report);
  return std::move(product.batch.all);
}

DevicePlan Engine::plan(const DeviceBsrView& a, const DeviceBsrView& b, const DeviceCall& call,
                        const ProductOptions& options) {
  auto state = std::make_unique<DevicePlan::State>(a, b, call, options, own().budget());
  const ProductOptions& on_cuda = state->product.options;
  const Inputs inputs{state->product.source_a, state->product.source_b};
  state->run.emplace(own().run_of(on_cuda, state->record.clock, &state->share));
  cuda::DeviceRun& run = *state->run;
  const plan::Limits limits = own().devices().choose(inputs, on_cuda, state->record, "", state->none, run);
  state->devices = own().devices().started();
  run.cancel = nullptr;
  run.arrays = state->record.arrays;
  if (cuda::wants_chains(a.type, call)) {
    state->planned = cuda::plan_chains(inputs.a, inputs.b, limits.gpus.front().bytes, run);
    return DevicePlan(std::move(state));
  }
  const plan::Choice expected = plan::decide(expected_of(inputs), limits);
  plan::throw_if_refused(expected);
  reserve_memory(expected, run);
  if (expected.is_out_of_core()) {
    throw OutOfMemory("a plan", "the product does not fit the memory of the device at once",
                      "raise EngineOptions::memory_limit_bytes, or free device memory");
  }
  state->planned = cuda::plan_product(inputs.a, inputs.b, expected, run);
  return DevicePlan(std::move(state));
}

DevicePlan::DevicePlan(std::unique_ptr<State> state) : state_(std::move(state)) {}
DevicePlan::DevicePlan(DevicePlan&& other) noexcept = default;
DevicePlan& DevicePlan::operator=(DevicePlan&& other) noexcept = default;
DevicePlan::~DevicePlan() = default;

const DeviceBsrMatrix& DevicePlan::pattern() const {
  return state_->product.batch.all;
}

void DevicePlan::multiply(const void* a, const void* b, void* c, CUstream_st* stream, const void* alpha,
                          const void* beta) {
  state_->planned->multiply(a, b, c, stream, alpha, beta);
}

std::uint64_t DevicePlan::count_saturated(const std::uint32_t* c, CUstream_st* stream) {
  return state_->planned->count_saturated(c, stream);
}

DeviceBsrBatch Engine::multiply_many(std::span<const DevicePair> products, const DeviceCall& call,
                                     const ProductOptions& options, Report* report) {
  if (products.empty()) return {.first_row = {0}};
  ProductRecord record(options);
  DeviceProduct product(check_products({products, &DevicePair::a}, {products, &DevicePair::b}), call, options);
  own().multiply(product, record, report);
  return std::move(product.batch);
}

DeviceBsrBatch Engine::multiply_stacks(const DeviceStacks& products, const DeviceCall& call,
                                       const ProductOptions& options, Report* report) {
  if (products.num_products == 0) return {};
  ProductRecord record(options);
  const std::uint64_t count = products.num_products;
  DeviceProduct product(check_products({products.a, count}, {products.b, count}), call, options);
  own().multiply(product, record, report);
  return std::move(product.batch);
}

}  // namespace spmm
