// Structs of the C interface, checked and copied into options.
#include "capi/c_interface.hpp"

#include <limits>
#include <span>

namespace spmm::capi {
namespace {

Backend backend_named(const char* name) {
  if (name == nullptr) return Backend::automatic;
  for (const Backend backend : {Backend::automatic, Backend::cuda, Backend::cpu}) {
    if (backend_name(backend) == name) return backend;
  }
  throw UsageError("ProductOptions::backend", std::string("'") + name + "' is not known", "use auto, cuda or cpu");
}

OnSaturation on_saturation(std::int32_t given) {
  if (given == SPMM_SATURATION_REPORT) return OnSaturation::report;
  if (given == SPMM_SATURATION_ERROR) return OnSaturation::error;
  throw UsageError("ProductOptions::on_saturation", "is " + std::to_string(given),
                   "use SPMM_SATURATION_REPORT or SPMM_SATURATION_ERROR");
}

std::uint32_t width(std::uint32_t given, std::uint32_t narrow, std::uint32_t wide, std::uint32_t usual,
                    const std::string& where) {
  if (given == 0) return usual;
  if (given == narrow || given == wide) return given;
  throw UsageError(where, "is " + std::to_string(given),
                   "use " + std::to_string(narrow) + " or " + std::to_string(wide));
}

template <class T>
std::span<const T> array(const void* data, std::uint64_t size, const std::string& where) {
  if (data == nullptr && size != 0) throw UsageError(where, "is NULL", "give the array");
  return {static_cast<const T*>(data), size};
}

IndexView indices(const void* data, std::uint64_t size, std::uint32_t bits, const std::string& where) {
  if (width(bits, 32, 64, 64, where + "_bits") == 32) return array<std::int32_t>(data, size, where);
  return array<std::int64_t>(data, size, where);
}

}  // namespace

EngineOptions engine_options(const spmm_engine_options* given) {
  const spmm_engine_options known = known_fields(given, "spmm_engine_options");
  EngineOptions options;
  options.num_threads = known.num_threads;
  options.memory_limit_bytes = known.memory_limit_bytes;
  const auto devices = array<std::int32_t>(known.devices, known.num_devices, "devices");
  for (const std::int32_t device : devices) {
    if (device < 0 && device != kAllDevices) {
      throw UsageError("devices", std::to_string(device) + " is no device", "give numbers from 0, or SPMM_ALL_DEVICES");
    }
  }
  if (devices.size() == 1 && devices[0] != kAllDevices) {
    options.device = devices[0];
  } else {
    options.devices.assign(devices.begin(), devices.end());
  }
  return options;
}

void ProductCall::check_nothing_added() const {
  if (given_.c == nullptr && given_.alpha == nullptr && given_.beta == nullptr) return;
  throw UsageError("spmm_product_options, c, alpha, beta", "are for spmm_multiply_bsr()",
                   "leave them out; products in device memory have them in spmm_device_call, files a pattern");
}

ProductCall::ProductCall(const spmm_product_options* given) : given_(known_fields(given, "spmm_product_options")) {
  const spmm_product_options& known = given_;
  options_.backend = backend_named(known.backend);
  if (known.kernel != nullptr) options_.kernel = known.kernel;
  options_.max_threads = known.max_threads;
  options_.durable = known.durable != 0;
  options_.no_clobber = known.no_clobber != 0;
  options_.transpose_a = known.transpose_a != 0;
  options_.transpose_b = known.transpose_b != 0;
  if (known.has_rows != 0) options_.rows = {.first = known.first_row, .end = known.end_row};
  options_.verify_blocks = known.verify_blocks;
  options_.verify_full = known.verify_full != 0;
  options_.proof_key = known.proof_key;
  options_.on_saturation = on_saturation(known.on_saturation);
  options_.selection = {.upper_triangle = known.upper_triangle != 0,
                        .no_diagonal = known.no_diagonal != 0,
                        .at_least = known.at_least,
                        .keep = known.keep};
  if (known.verify_seed != 0) options_.verify_seed = known.verify_seed;
  spmm_cancel* const cancel = known.cancel != nullptr ? known.cancel : &own_;
  options_.cancel = &cancel->flag;
  if (known.progress == nullptr) return;
  options_.on_progress = [cancel, call = known.progress, context = known.progress_context](
                             Stage stage, std::uint64_t done, std::uint64_t total) {
    if (call(context, stage_name(stage).data(), done, total) != 0) cancel->flag = true;
  };
}

std::uint32_t element_bits(const spmm_bsr& given, const std::string& name) {
  return width(given.element_bits, 16, 32, 16, name + ", element_bits");
}

ElementType element_type(std::uint32_t given, const std::string& name) {
  if (given <= SPMM_I64) return static_cast<ElementType>(given);
  throw UsageError(name + ", element_type", "is " + std::to_string(given), "use SPMM_U16, SPMM_F64 and so on");
}

template <class T>
BsrView<T> bsr_view(const spmm_bsr& given, const std::string& name, bool is_pattern) {
  const bool is_chain = element_type(given.element_type, name) != ElementType::u16;
  if (is_chain ? given.element_bits != 0 : element_bits(given, name) != 8 * sizeof(T)) {
    throw UsageError(name + ", element_bits", "is " + std::to_string(given.element_bits),
                     is_chain ? "leave it at 0: element_type says it" : "operands have elements of 16 bits");
  }
  BsrView<T> view{.rows = given.rows, .cols = given.cols, .m = given.block_side};
  const std::uint64_t num_rows = given.block_side == 0 ? 0 : given.rows / given.block_side;
  view.indptr = indices(given.indptr, num_rows + 1, given.indptr_bits, name + ", indptr");
  view.indices = indices(given.indices, given.num_indices, given.indices_bits, name + ", indices");
  const std::uint64_t elements = std::uint64_t{given.block_side} * given.block_side;
  std::uint64_t size = 0;
  if (__builtin_mul_overflow(given.num_indices, elements, &size) ||
      size > std::numeric_limits<std::uint64_t>::max() / 8) {
    throw UsageError(name + ", num_indices", "is " + std::to_string(given.num_indices), "give the length of indices");
  }
  if (!is_pattern) view.data = array<T>(given.data, size, name + ", data");
  return view;
}

#define SPMM_VIEW(T, name) template BsrView<T> bsr_view<T>(const spmm_bsr&, const std::string&, bool);
SPMM_ELEMENT_TYPES(SPMM_VIEW)

}  // namespace spmm::capi
