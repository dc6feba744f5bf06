// A random product: operands and how they are multiplied, all from one number.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "spmm/arrays.hpp"
#include "spmm/engine.hpp"
#include "spmm/options.hpp"
#include "spmm/types.hpp"
#include "support/matrices.hpp"

namespace spmm::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15u + 1) {}
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  /// From 1 to bound, small ones as often as large ones.
  std::uint64_t up_to(std::uint64_t bound) {
    std::uint64_t size = 1;
    while (size < bound && !one_in(8)) size *= 2;
    return 1 + below(std::min(size, bound));
  }
  template <class List>
  const auto& of(const List& list) {
    return list[below(list.size())];
  }

 private:
  std::mt19937_64 engine_;
};

/// Where the operands are.
enum class Way : std::uint8_t { memory, files, arrays, device, plan, types, device_types };
inline constexpr std::array kWays = {"memory", "files", "arrays", "device", "plan", "types", "device types"};

struct StressCase {
  std::uint64_t seed = 0;
  BlockMatrix a;                         ///< as given: transposed if the options say so
  BlockMatrix b;                         ///< as given
  ProductMatrix expected;                ///< by the oracle
  std::vector<std::size_t> bad_records;  ///< not empty: a FormatError that names these
  std::uint64_t cancel_at = 0;           ///< not 0: the call of the progress function that cancels the product
  std::uint64_t num_pairs = 0;           ///< of blocks that the product multiplies
  std::uint64_t num_dropped = 0;         ///< elements that the selection of the options drops
  std::string isa;                       ///< SPMM_CPU_ISA; "" = the widest one
  bool is_square = false;                ///< a and b are the same: one file
  bool is_large = false;                 ///< operands of some MB: long rows, and products out of core
  Way way = Way::memory;
  std::uint32_t sides[3] = {};  ///< of arrays: block rows of A, its block columns, block columns of B
  bool is_warm = false;         ///< on the engine of the products before
  int num_ranks = 0;            ///< 0 = no spmm-mpi
  Options options;
  std::string text;  ///< one line that says all this
};

/// What the cases are drawn from.
struct StressChoice {
  Backend backend = Backend::cpu;
  std::vector<std::string> kernels;  ///< in addition to "auto"
  std::vector<std::string> isas;
  bool has_ranks = false;
  bool has_device_ways = false;         ///< Way::device, Way::plan
  std::uint64_t max_work = 60'000'000;  ///< multiply-adds: the oracle takes a twentieth of a second
};

/// The case of a seed: the same choice and seed give the same case.
StressCase make_stress_case(std::uint64_t seed, const StressChoice& choice);

/// A product of arrays of another type than u16, which the seed draws; without operands here.
StressCase make_type_case(std::uint64_t seed, const StressChoice& choice);

/// The operands of a small product.
Operands random_operands(std::uint64_t seed);

/// The product of block-CSR arrays as Way::device or Way::plan, in device memory. The report is that of Way::device.
ProductMatrix multiply_on_device(Engine& engine, const StressCase& c, const BsrMatrix<std::uint16_t>& a,
                                 const BsrMatrix<std::uint16_t>& b, Report& report);

/// Proves the product of the case by spmm-verify's code and by the engine, and the same with forged results. Returns
/// what went wrong, or "". Adds the number of forged results. Values: folder = where files may be written.
std::string problem_of_proofs(const StressCase& c, const std::string& folder, std::uint64_t& num_forged);

}  // namespace spmm::test
