// Products of arrays in device memory, and plans.
#include "support/on_device.hpp"
#include "spmm/spmm.hpp"
#include "support/stress_case.hpp"

namespace spmm::test {
namespace {

template <class Index>
ProductMatrix multiply_there(Engine& engine, const StressCase& c, const BsrMatrix<std::uint16_t>& a,
                             const BsrMatrix<std::uint16_t>& b, Report& report) {
  if (c.way == Way::plan) return multiply_by_plan<Index>(engine, a, b, c.a.n, c.options, c.seed % 4 < 2);
  const DeviceMatrix<Index> on_a(a);
  const DeviceMatrix<Index> on_b(b);
  return blocks_on_host<Index>(engine.multiply(on_a.view(), on_b.view(), {}, c.options, &report), c.a.n);
}

}  // namespace

ProductMatrix multiply_on_device(Engine& engine, const StressCase& c, const BsrMatrix<std::uint16_t>& a,
                                 const BsrMatrix<std::uint16_t>& b, Report& report) {
  return c.seed % 2 == 0 ? multiply_there<std::int32_t>(engine, c, a, b, report)
                         : multiply_there<std::int64_t>(engine, c, a, b, report);
}

}  // namespace spmm::test
