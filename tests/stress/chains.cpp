#include "stress/chains.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "spmm/spmm.hpp"
#include "support/chain_cases.hpp"
#ifdef SPMM_STRESS_CUDA
#include "support/on_device.hpp"
#endif

namespace spmm::test {
namespace {

template <class T>
BsrMatrix<ProductOf<T>> multiply_in_device_memory(Engine& engine, const BsrMatrix<T>& a, const BsrMatrix<T>& b,
                                                  const std::optional<BsrMatrix<ProductOf<T>>>& c,
                                                  const GivenResult<T>& given, bool is_mask,
                                                  const ProductOptions& options, Report& report) {
#ifdef SPMM_STRESS_CUDA
  const DeviceMatrix<std::int32_t, T> on_a(a);
  const DeviceMatrix<std::int32_t, T> on_b(b);
  DeviceCall call{.is_mask = is_mask};
  std::optional<DeviceMatrix<std::int32_t, ProductOf<T>>> on_c;
  if (c) {
    call.c = on_c.emplace(*c).view();
    call.alpha = kSaturates<T> ? nullptr : &given.alpha;
    call.beta = given.beta == 0 ? nullptr : &given.beta;
  }
  const DeviceBsrMatrix product = engine.multiply(on_a.view(), on_b.view(), call, options, &report);
  return result_on_host<ProductOf<T>, std::int32_t>(product, product.values.get());
#else
  (void)engine, (void)a, (void)b, (void)c, (void)given, (void)is_mask, (void)options, (void)report;
  throw std::runtime_error("built without CUDA");
#endif
}

template <class T>
std::string problem_of(Engine& engine, std::uint64_t seed, ProductOptions& options, bool in_device_memory) {
  Random random(seed);
  const std::uint32_t m = random_side(random);
  auto [a, b] = random_operands<T>(m, 30000, random);
  const BsrMatrix<T> arrays_a = arrays_of(a, order_of(a.at, random() % 2 == 0, random));
  const BsrMatrix<T> arrays_b = arrays_of(b, order_of(b.at, random() % 3 == 0, random));
  const bool is_mask = random() % 2 == 0;
  GivenResult<T> given;
  std::optional<BsrMatrix<ProductOf<T>>> c;
  if (kSaturates<T> || random() % 3 == 0) {  // all other products of u16 have kernels of their own
    given = random_result(a, b, !is_mask, random);
    c = arrays_of(given, m);
  }
  if (!c && !in_device_memory && random() % 4 == 0) {
    options.rows.first = static_cast<std::uint32_t>(random() % (a.at.rows + 1));
    options.rows.end = options.rows.first + static_cast<std::uint32_t>(random() % (a.at.rows + 1 - options.rows.first));
    for (const std::uint32_t first = a.at.ptr[options.rows.first], end = a.at.ptr[options.rows.end];
         std::uint32_t & begin : a.at.ptr) {
      begin = std::clamp(begin, first, end);
    }
  }
  const auto wanted = c ? given_oracle(a, b, given) : chain_oracle(a, b);
  Report report;
  BsrMatrix<ProductOf<T>> product;
  if (in_device_memory) {
    product = multiply_in_device_memory(engine, arrays_a, arrays_b, c, given, is_mask, options, report);
  } else {
    Accumulation<ProductOf<T>> onto;
    const BsrView<ProductOf<T>> view = c ? c->view() : BsrView<ProductOf<T>>{};
    if (c) {
      onto = {.c = &view,
              .is_mask = is_mask,
              .alpha = static_cast<ProductOf<T>>(given.alpha),
              .beta = static_cast<ProductOf<T>>(given.beta)};
    }
    product = engine.multiply(arrays_a.view(), arrays_b.view(), options, &report, onto);
  }
  if (!has_bits(product, wanted)) return "other bits, side " + std::to_string(m);
  if (report.c_blocks != product.indices.size()) return "blocks of the report: wrong";
  if (report.element_type != kElementType<T>) return "type of the report: wrong";
  if constexpr (kSaturates<T>) {
    const auto num_saturated = std::count(wanted.values.begin(), wanted.values.end(), kMaxVal);
    if (report.saturated_elements != static_cast<std::uint64_t>(num_saturated)) return "saturated elements: wrong";
  }
  const std::uint64_t limit = report.plan.device_limit_bytes;
  return limit != 0 && report.peak_device_bytes > limit ? "needs more than its limit" : "";
}

}  // namespace

ElementType chain_type(std::uint64_t seed) {
  constexpr std::uint64_t kNumTypes = 11;
  return static_cast<ElementType>(seed / 8 % kNumTypes);
}

std::string problem_of_chains(Engine& engine, std::uint64_t seed, ProductOptions options, bool in_device_memory) {
  return with_element_type(chain_type(seed),
                           [&]<class T>() { return problem_of<T>(engine, seed, options, in_device_memory); });
}

}  // namespace spmm::test
