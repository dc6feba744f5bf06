// The functions of spmm/spmm.h but those of errors.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "capi/c_interface.hpp"
#include "report/json.hpp"
#include "spmm/arrays.hpp"
#include "spmm/device.hpp"
#include "spmm/engine.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"

struct spmm_engine {
  explicit spmm_engine(const spmm::EngineOptions& options) : engine(options) {}
  spmm::Engine engine;
};

struct spmm_matrix {
  std::variant<spmm::BsrMatrix<std::uint32_t>, spmm::BsrMatrix<std::uint16_t>, spmm::BsrMatrix<double>,
               spmm::BsrMatrix<float>, spmm::BsrMatrix<std::int64_t>>
      arrays{};
};

struct spmm_device_matrix {
  spmm::DeviceBsrMatrix arrays{};
  spmm::DeviceBsrBatch batch{};  // of many products; its own `all` is also above
};

struct spmm_device_plan {
  spmm::DevicePlan plan;
  spmm_device_matrix pattern{};
};

struct spmm_report {
  spmm::Report report{};
  std::string json{};
};

namespace {

using namespace spmm;
using namespace spmm::capi;

std::string name_of(const char* given, const char* usual) {
  return given != nullptr ? given : usual;
}

/// Returns the report of a product if the caller asks for it. Nothing that can fail may follow.
void hand_out(Report report, const cli::RunNames& names, spmm_report** report_out) {
  if (report_out == nullptr) return;
  auto kept = std::make_unique<spmm_report>();
  kept->json = cli::report_json(report, names, {.indent = 0});
  kept->report = std::move(report);
  *report_out = kept.release();
}

/// Errors: ShapeError.
void check_types(ElementType type, ElementType other, const std::string& names) {
  if (type == other) return;
  throw ShapeError(names,
                   "elements of " + std::string(element_name(type)) + " against " + std::string(element_name(other)),
                   "convert one of them");
}

/// Errors: UsageError.
DeviceBsrView device_view(const spmm_device_bsr* matrix, const char* name) {
  const spmm_device_bsr given = known_fields(&required(matrix, name), name);
  if (given.index_bits != 0 && given.index_bits != 32 && given.index_bits != 64) {
    throw UsageError(std::string(name) + ", index_bits", "is " + std::to_string(given.index_bits), "use 32, 64 or 0");
  }
  return {.rows = given.rows,
          .cols = given.cols,
          .m = given.block_side,
          .num_blocks = given.num_blocks,
          .indptr = given.indptr,
          .indices = given.indices,
          .index_bytes = given.index_bits == 32 ? 4u : 8u,
          .values = given.data,
          .type = element_type(given.element_type, name)};
}

/// Errors: UsageError.
DeviceCall device_call(const spmm_device_call* call) {
  const spmm_device_call given = known_fields(call, "call");
  DeviceCall known{.stream = static_cast<CUstream_st*>(given.stream),
                   .allocator = {.serves_workspace = given.serves_workspace != 0},
                   .is_mask = given.is_mask != 0,
                   .alpha = given.alpha,
                   .beta = given.beta};
  if (given.c != nullptr) known.c = device_view(given.c, "c");
  if (given.allocate != nullptr) {
    known.allocator.allocate = [given](std::uint64_t bytes, std::uint64_t alignment, CUstream_st* stream) {
      return given.allocate(given.allocate_context, bytes, alignment, stream);
    };
  }
  if (given.release != nullptr) {
    known.allocator.release = [given](void* data, CUstream_st* stream) {
      given.release(given.allocate_context, data, stream);
    };
  }
  return known;
}

/// Products whose result stays on the device: multiply(matrix, options, report) makes it.
template <class Multiply>
spmm_status multiply_in_device_memory(spmm_engine* engine, const spmm_product_options* options,
                                      spmm_device_matrix** result, spmm_report** report, const Multiply& multiply) {
  return guarded([&] {
    required(engine, "engine");
    required(result, "result");
    const ProductCall product(options);
    product.check_nothing_added();
    auto matrix = std::make_unique<spmm_device_matrix>();
    Report finished;
    multiply(*matrix, product.options(), report == nullptr ? nullptr : &finished);
    hand_out(std::move(finished), {}, report);
    *result = matrix.release();
  });
}

/// Products that lie one struct_size of their caller behind the other. Errors: UsageError.
std::vector<DevicePair> device_pairs(const spmm_device_pair* products, std::uint64_t count) {
  std::vector<DevicePair> pairs;
  if (count == 0) return pairs;
  pairs.reserve(count);
  const std::uint64_t size = required(products, "products").a.struct_size;
  const auto* at = reinterpret_cast<const unsigned char*>(products);
  for (std::uint64_t x = 0; x < count; ++x, at += 2 * size) {
    const auto* const a = reinterpret_cast<const spmm_device_bsr*>(at);
    const auto* const b = reinterpret_cast<const spmm_device_bsr*>(at + size);
    pairs.push_back({.a = device_view(a, "products, a"), .b = device_view(b, "products, b")});
    if (a->struct_size != size || b->struct_size != size) {
      throw UsageError("products", "struct_size differs", "set it in all of them");
    }
  }
  return pairs;
}

/// Errors: UsageError.
DeviceStacks device_stacks(const spmm_device_stacks* products) {
  const spmm_device_stacks given = known_fields(&required(products, "products"), "products");
  const auto stack = [](const spmm_device_bsr* first, const spmm_device_strides& strides, const char* name) {
    return DeviceBsrStack{.first = device_view(first, name),
                          .strides = {.indptr = strides.indptr, .indices = strides.indices, .values = strides.data}};
  };
  return {.a = stack(given.a, given.a_strides, "products, a"),
          .b = stack(given.b, given.b_strides, "products, b"),
          .num_products = given.num_products};
}

/// The result of many products as a handle has it.
void take_batch(DeviceBsrBatch batch, spmm_device_matrix& matrix) {
  matrix.arrays = batch.all;
  matrix.batch = std::move(batch);
}

template <class T>
std::unique_ptr<spmm_matrix> read_matrix_handle(const char* path) {
  auto matrix = std::make_unique<spmm_matrix>();
  matrix->arrays = read_bsr<T>(path);
  return matrix;
}

/// Whether the file has elements of 16 bits. Errors: those of read_header() for 16 bits, where neither fits.
bool has_short_elements(const char* path) {
  try {
    read_header(path, ElementType::u16);
    return true;
  } catch (const FormatError&) {
    try {
      read_header(path, ElementType::u32);
    } catch (const Error&) {
      read_header(path, ElementType::u16);
    }
    return false;
  }
}

template <class Read>
auto of_matrix(const spmm_matrix* matrix, const Read& read) {
  return std::visit(read, matrix->arrays);
}

/// Copies all or nothing. Errors: UsageError where one does not fit.
void copy_narrow(const std::vector<std::int64_t>& from, std::int32_t* to) {
  const auto largest = std::max_element(from.begin(), from.end());
  if (largest != from.end() && *largest > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError("matrix", std::to_string(*largest) + " does not fit 32 bits", "use the array of 64 bits");
  }
  std::transform(from.begin(), from.end(), to, [](std::int64_t value) { return static_cast<std::int32_t>(value); });
}

}  // namespace

extern "C" {

const char* spmm_version(void) {
  static const std::string* const version = []() -> const std::string* {
    try {
      return new std::string(version_string());  // never destroyed: the text stays valid
    } catch (...) {
      return nullptr;
    }
  }();
  return version == nullptr ? "spmm" : version->c_str();
}

int32_t spmm_c_api(void) {
  return SPMM_C_API;
}

int32_t spmm_has_cuda_device(void) {
  try {
    return has_cuda_device() ? 1 : 0;
  } catch (...) {
    return 0;
  }
}

spmm_cancel* spmm_cancel_create(void) {
  return new (std::nothrow) spmm_cancel;
}
void spmm_cancel_set(spmm_cancel* cancel) {
  cancel->flag = true;
}
void spmm_cancel_reset(spmm_cancel* cancel) {
  cancel->flag = false;
}
void spmm_cancel_destroy(spmm_cancel* cancel) {
  delete cancel;
}

spmm_status spmm_engine_create(const spmm_engine_options* options, spmm_engine** engine) {
  return guarded([&] {
    required(engine, "engine");
    *engine = new spmm_engine(engine_options(options));
  });
}
void spmm_engine_destroy(spmm_engine* engine) {
  delete engine;
}
spmm_status spmm_engine_trim(spmm_engine* engine) {
  return guarded([&] {
    required(engine, "engine");
    engine->engine.trim();
  });
}

spmm_status spmm_multiply_bsr(spmm_engine* engine, const spmm_bsr* a, const spmm_bsr* b,
                              const spmm_product_options* options, spmm_matrix** result, spmm_report** report) {
  return guarded([&] {
    required(engine, "engine");
    required(result, "result");
    const spmm_bsr given_a = known_fields(&required(a, "a"), "spmm_bsr a");
    const spmm_bsr given_b = known_fields(&required(b, "b"), "spmm_bsr b");
    const ProductCall call(options);
    const spmm_product_options& given = call.given();
    const std::string name_a = name_of(given_a.name, "matrix A");
    const std::string name_b = name_of(given_b.name, "matrix B");
    const ElementType type = element_type(given_a.element_type, name_a);
    check_types(type, element_type(given_b.element_type, name_b), name_a + " and " + name_b);
    with_element_type(type, [&]<class T>() {
      using Result = ProductOf<T>;
      Accumulation<Result> onto{.is_mask = given.is_mask != 0};
      BsrView<Result> view_c;
      if (given.c != nullptr) {
        const spmm_bsr c = known_fields(given.c, "spmm_bsr c");
        check_types(result_of(type), element_type(c.element_type, "matrix C"), "the product and matrix C");
        view_c = bsr_view<Result>(c, "matrix C", given.beta == nullptr);
        onto.c = &view_c;
      }
      if (given.alpha != nullptr) onto.alpha = *static_cast<const Result*>(given.alpha);
      if (given.beta != nullptr) onto.beta = *static_cast<const Result*>(given.beta);
      auto matrix = std::make_unique<spmm_matrix>();
      Report finished;
      BsrView<T> view_a = bsr_view<T>(given_a, name_a);
      BsrView<T> view_b = bsr_view<T>(given_b, name_b);
      view_a.name = name_a;
      view_b.name = name_b;
      matrix->arrays = engine->engine.multiply(view_a, view_b, call.options(), &finished, onto);
      hand_out(std::move(finished), {}, report);
      *result = matrix.release();
    });
  });
}

spmm_status spmm_multiply_blocks(spmm_engine* engine, const spmm_blocks* a, const spmm_blocks* b,
                                 const spmm_product_options* options, spmm_matrix** result, spmm_report** report) {
  return guarded([&] {
    required(engine, "engine");
    required(result, "result");
    const ProductCall call(options);
    call.check_nothing_added();
    const auto source = [](const spmm_blocks* blocks, const char* which, const char* usual) {
      const spmm_blocks given = known_fields(&required(blocks, which), which);
      if (given.num_blocks != 0) {
        required(given.index, "index");
        required(given.values, "values");
      }
      static_assert(sizeof(BlockIndex) == 2 * sizeof(std::uint32_t));
      const std::uint64_t elements = std::uint64_t{given.block_side} * given.block_side;
      const std::uint64_t num_blocks = std::min<std::uint64_t>(given.num_blocks, std::uint64_t{1} << 40);
      return make_block_source({.n = given.n,
                                .m = given.block_side,
                                .index = {reinterpret_cast<const BlockIndex*>(given.index), num_blocks},
                                .values = {given.values, num_blocks * elements}},
                               name_of(given.name, usual));
    };
    const auto source_a = source(a, "a", "matrix A");
    const auto source_b = source(b, "b", "matrix B");
    const std::uint32_t n = source_a->header().n;
    auto matrix = std::make_unique<spmm_matrix>();
    const auto sink = make_bsr_sink(matrix->arrays.emplace<BsrMatrix<std::uint32_t>>(), n, n);
    hand_out(engine->engine.multiply(*source_a, *source_b, *sink, call.options()), {}, report);
    *result = matrix.release();
  });
}

spmm_status spmm_multiply_files(spmm_engine* engine, const char* a, const char* b, const char* out,
                                const spmm_product_options* options, spmm_report** report) {
  return guarded([&] {
    required(engine, "engine");
    ProductCall call(options);
    call.check_nothing_added();
    call.read_pattern();
    Report finished =
        engine->engine.multiply(&required(a, "a"), &required(b, "b"), &required(out, "out"), call.options());
    hand_out(std::move(finished), {.a = a, .b = b, .out = out}, report);
  });
}

spmm_status spmm_multiply_device(spmm_engine* engine, const spmm_device_bsr* a, const spmm_device_bsr* b,
                                 const spmm_device_call* call, const spmm_product_options* options,
                                 spmm_device_matrix** result, spmm_report** report) {
  return multiply_in_device_memory(
      engine, options, result, report, [&](spmm_device_matrix& matrix, const ProductOptions& known, Report* finished) {
        matrix.arrays =
            engine->engine.multiply(device_view(a, "a"), device_view(b, "b"), device_call(call), known, finished);
      });
}
spmm_status spmm_multiply_many_device(spmm_engine* engine, const spmm_device_pair* products, uint64_t num_products,
                                      const spmm_device_call* call, const spmm_product_options* options,
                                      spmm_device_matrix** result, spmm_report** report) {
  return multiply_in_device_memory(
      engine, options, result, report, [&](spmm_device_matrix& matrix, const ProductOptions& known, Report* finished) {
        take_batch(
            engine->engine.multiply_many(device_pairs(products, num_products), device_call(call), known, finished),
            matrix);
      });
}
spmm_status spmm_multiply_stacks_device(spmm_engine* engine, const spmm_device_stacks* products,
                                        const spmm_device_call* call, const spmm_product_options* options,
                                        spmm_device_matrix** result, spmm_report** report) {
  return multiply_in_device_memory(
      engine, options, result, report, [&](spmm_device_matrix& matrix, const ProductOptions& known, Report* finished) {
        take_batch(engine->engine.multiply_stacks(device_stacks(products), device_call(call), known, finished), matrix);
      });
}
spmm_status spmm_plan_device(spmm_engine* engine, const spmm_device_bsr* a, const spmm_device_bsr* b,
                             const spmm_device_call* call, const spmm_product_options* options,
                             spmm_device_plan** plan) {
  return guarded([&] {
    required(engine, "engine");
    required(plan, "plan");
    const ProductCall product(options);
    product.check_nothing_added();
    std::unique_ptr<spmm_device_plan> made(new spmm_device_plan{
        .plan = engine->engine.plan(device_view(a, "a"), device_view(b, "b"), device_call(call), product.options())});
    made->pattern.arrays = made->plan.pattern();
    *plan = made.release();
  });
}
void spmm_device_plan_destroy(spmm_device_plan* plan) {
  delete plan;
}
const spmm_device_matrix* spmm_device_plan_pattern(const spmm_device_plan* plan) {
  return &plan->pattern;
}
spmm_status spmm_device_plan_multiply(spmm_device_plan* plan, const uint16_t* a, const uint16_t* b, uint32_t* c,
                                      void* stream) {
  return guarded([&] {
    required(plan, "plan");
    plan->plan.multiply(a, b, c, static_cast<CUstream_st*>(stream));
  });
}
spmm_status spmm_device_plan_multiply_add(spmm_device_plan* plan, const void* a, const void* b, void* c,
                                          const void* alpha, const void* beta, void* stream) {
  return guarded([&] {
    required(plan, "plan");
    plan->plan.multiply(a, b, c, static_cast<CUstream_st*>(stream), alpha, beta);
  });
}
spmm_status spmm_device_plan_count_saturated(spmm_device_plan* plan, const uint32_t* c, void* stream, uint64_t* count) {
  return guarded([&] {
    required(plan, "plan");
    required(count, "count");
    *count = plan->plan.count_saturated(c, static_cast<CUstream_st*>(stream));
  });
}
const uint64_t* spmm_device_matrix_first_rows(const spmm_device_matrix* matrix) {
  return matrix->batch.first_row.empty() ? nullptr : matrix->batch.first_row.data();
}
const void* spmm_device_matrix_first_blocks(const spmm_device_matrix* matrix) {
  return matrix->batch.first_block.get();
}
spmm_status spmm_device_matrix_fetch_first_blocks(const spmm_device_matrix* matrix, uint64_t* to) {
  return guarded([&] {
    required(to, "to");
    const std::vector<std::uint64_t> fetched = fetch_first_blocks(required(matrix, "matrix").batch);
    std::copy(fetched.begin(), fetched.end(), to);
  });
}
int32_t spmm_device_matrix_device(const spmm_device_matrix* matrix) {
  return matrix->arrays.device;
}
void spmm_destroy_dlpack_capsule(void* capsule) {
  destroy_capsule(capsule);
}
const void* spmm_device_matrix_indptrs(const spmm_device_matrix* matrix) {
  return matrix->batch.indptrs.get();
}
spmm_status spmm_make_dlpack(const spmm_device_matrix* owner, const spmm_array* array, int32_t is_versioned,
                             void** managed) {
  return guarded([&] {
    required(managed, "managed");
    std::shared_ptr<const void> shared;
    if (owner != nullptr) {
      const auto& [arrays, batch] = *owner;
      shared =
          std::make_shared<const std::array<std::shared_ptr<const void>, 5>>(std::array<std::shared_ptr<const void>, 5>{
              arrays.indptr, arrays.indices, arrays.values, batch.first_block, batch.indptrs});
    }
    *managed = make_dlpack(known_fields(&required(array, "array"), "spmm_array"), std::move(shared), is_versioned != 0);
  });
}
void spmm_device_matrix_destroy(spmm_device_matrix* matrix) {
  delete matrix;
}
uint64_t spmm_device_matrix_num_blocks(const spmm_device_matrix* matrix) {
  return matrix->arrays.num_blocks;
}
uint64_t spmm_device_matrix_num_saturated(const spmm_device_matrix* matrix) {
  return matrix->arrays.num_saturated;
}
const void* spmm_device_matrix_indptr(const spmm_device_matrix* matrix) {
  return matrix->arrays.indptr.get();
}
const void* spmm_device_matrix_indices(const spmm_device_matrix* matrix) {
  return matrix->arrays.indices.get();
}
const uint32_t* spmm_device_matrix_data(const spmm_device_matrix* matrix) {
  return static_cast<const uint32_t*>(matrix->arrays.values.get());
}

spmm_status spmm_read(const char* path, uint32_t element_bits, spmm_matrix** matrix) {
  return guarded([&] {
    required(path, "path");
    required(matrix, "matrix");
    if (element_bits != 0 && element_bits != 16 && element_bits != 32) {
      throw UsageError("element_bits", "is " + std::to_string(element_bits), "use 16, 32 or 0");
    }
    const bool is_short = element_bits == 0 ? has_short_elements(path) : element_bits == 16;
    auto read = is_short ? read_matrix_handle<std::uint16_t>(path) : read_matrix_handle<std::uint32_t>(path);
    *matrix = read.release();
  });
}

spmm_status spmm_write(const char* path, const spmm_bsr* matrix) {
  return guarded([&] {
    required(path, "path");
    const spmm_bsr given = known_fields(&required(matrix, "matrix"), "spmm_bsr");
    const std::string name = name_of(given.name, "matrix");
    if (element_bits(given, name) == 16) {
      write_bsr(path, bsr_view<std::uint16_t>(given, name), name);
    } else {
      write_bsr(path, bsr_view<std::uint32_t>(given, name), name);
    }
  });
}

void spmm_matrix_destroy(spmm_matrix* matrix) {
  delete matrix;
}
uint64_t spmm_matrix_rows(const spmm_matrix* matrix) {
  return of_matrix(matrix, [](const auto& arrays) { return arrays.rows; });
}
uint64_t spmm_matrix_cols(const spmm_matrix* matrix) {
  return of_matrix(matrix, [](const auto& arrays) { return arrays.cols; });
}
uint32_t spmm_matrix_block_side(const spmm_matrix* matrix) {
  return of_matrix(matrix, [](const auto& arrays) { return arrays.m; });
}
uint32_t spmm_matrix_element_bits(const spmm_matrix* matrix) {
  return of_matrix(matrix, [](const auto& arrays) { return static_cast<std::uint32_t>(8 * sizeof(arrays.data[0])); });
}
uint32_t spmm_matrix_element_type(const spmm_matrix* matrix) {
  return of_matrix(matrix, []<class T>(const BsrMatrix<T>&) { return static_cast<std::uint32_t>(kElementType<T>); });
}
uint64_t spmm_matrix_num_blocks(const spmm_matrix* matrix) {
  return of_matrix(matrix, [](const auto& arrays) { return std::uint64_t{arrays.indices.size()}; });
}
const int64_t* spmm_matrix_indptr(const spmm_matrix* matrix) {
  return of_matrix(matrix, [](const auto& arrays) { return arrays.indptr.data(); });
}
const int64_t* spmm_matrix_indices(const spmm_matrix* matrix) {
  return of_matrix(matrix, [](const auto& arrays) { return arrays.indices.data(); });
}
const void* spmm_matrix_data(const spmm_matrix* matrix) {
  return of_matrix(matrix, [](const auto& arrays) -> const void* { return arrays.data.data(); });
}
spmm_status spmm_matrix_copy_indptr32(const spmm_matrix* matrix, int32_t* to) {
  return guarded([&] {
    required(to, "to");
    of_matrix(&required(matrix, "matrix"), [&](const auto& arrays) { copy_narrow(arrays.indptr, to); });
  });
}
spmm_status spmm_matrix_copy_indices32(const spmm_matrix* matrix, int32_t* to) {
  return guarded([&] {
    required(to, "to");
    of_matrix(&required(matrix, "matrix"), [&](const auto& arrays) { copy_narrow(arrays.indices, to); });
  });
}

void spmm_report_destroy(spmm_report* report) {
  delete report;
}
uint64_t spmm_report_num_blocks(const spmm_report* report) {
  return report->report.c_blocks;
}
uint64_t spmm_report_num_pairs(const spmm_report* report) {
  return report->report.pairs;
}
uint64_t spmm_report_num_saturated(const spmm_report* report) {
  return report->report.saturated_elements;
}
double spmm_report_seconds(const spmm_report* report) {
  return report->report.total_s;
}
const char* spmm_report_backend(const spmm_report* report) {
  return backend_name(report->report.plan.backend).data();
}
const char* spmm_report_kernel(const spmm_report* report) {
  return report->report.plan.kernel.c_str();
}
const char* spmm_report_json(const spmm_report* report) {
  return report->json.c_str();
}

}  // extern "C"
