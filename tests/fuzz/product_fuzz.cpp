// Products of every shape on the CPU, by every kernel, also in slabs, against the oracle.
#include <set>

#include "fuzz/fuzz_support.hpp"
#include "spmm/multiply.hpp"
#include "support/oracle.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::fuzz {
namespace {

std::uint16_t element(InputBytes& in, std::uint8_t style, std::size_t number) {
  switch (style & 3) {
    case 0:
      return 65535;  // sums pass 2^32
    case 1:
      return in.u16();
    case 2:
      return number % 7 == 0 ? in.u8() : 0;
    default:
      return static_cast<std::uint16_t>(number * 40503u);  // any value, without using up the input
  }
}

BlockMatrix matrix_of(InputBytes& in, std::uint32_t side, std::uint32_t m) {
  BlockMatrix matrix{.n = side * m, .m = m, .index = {}, .values = {}};
  std::set<BlockIndex> seen;
  const std::uint32_t count = in.u8() % 64;
  for (std::uint32_t x = 0; x < count && !in.empty(); ++x) {
    const BlockIndex at{.i = in.below(side), .j = in.below(side)};
    const std::uint8_t style = in.u8();
    if (!seen.insert(at).second) continue;
    matrix.index.push_back(at);
    for (std::size_t e = 0; e < std::size_t{m} * m; ++e) matrix.values.push_back(element(in, style, e + x));
  }
  return matrix;
}

bool same(const ProductMatrix& x, const ProductMatrix& y) {
  return x.n == y.n && x.m == y.m && x.index == y.index && x.values == y.values;
}

}  // namespace

void fuzz_product(Bytes bytes) {
  static const std::vector<std::string> kKernels = test::available_kernels();
  static const std::vector<std::string> kIsas = test::available_isas();
  InputBytes in(bytes);
  const std::uint8_t mode = in.u8();
  const std::uint32_t m = (mode & 1) != 0 ? 1u << in.below(6) : 1 + in.below(13);
  const std::uint32_t side = 1 + in.below((mode & 2) != 0 ? 1000 : 12);
  test::Settings settings;
  settings.kernel = kKernels[in.below(static_cast<std::uint32_t>(kKernels.size()))];
  settings.num_threads = 1 + in.below(2);
  settings.panel_bytes = std::uint64_t{1} << (in.below(12) + 5);
  settings.num_buffers = 2 + in.below(4);
  const test::ForcedIsa isa(kIsas[in.below(static_cast<std::uint32_t>(kIsas.size()))]);
  const BlockMatrix a = matrix_of(in, side, m);
  const BlockMatrix b = matrix_of(in, side, m);

  const ProductMatrix expected = test::oracle_multiply(a, b);
  require(same(test::run_cpu(a, b, settings), expected), "the product is that of the oracle");
  if ((mode & 4) == 0) return;
  Options options;
  options.backend = Backend::cpu;
  options.num_threads = 1;
  options.memory_limit_bytes = std::uint64_t{1} << (12 + in.below(10));
  options.verify_blocks = in.below(3);
  accepted([&] { require(same(multiply(a, b, options), expected), "slabs give the same blocks"); });
}

}  // namespace spmm::fuzz
