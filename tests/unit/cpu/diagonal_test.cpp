// Operands of side 1 on a few diagonals: which ones are taken, and products at the borders of the matrix.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cpu/operands/diagonals.hpp"
#include "cpu/operands/prepared.hpp"
#include "support/catch.hpp"
#include "support/oracle.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::test {
namespace {

/// What lies on the diagonals of a matrix of side n.
struct Diagonals {
  std::uint32_t n;
  std::vector<std::int64_t> offsets;
  std::uint32_t largest = 2047;
  double share = 1;           ///< elements that are stored
  std::uint32_t modulus = 1;  ///< rows that this does not divide hold nothing
};

BlockMatrix matrix_of(const Diagonals& from, std::uint64_t seed) {
  BlockMatrix out{.n = from.n, .m = 1, .index = {}, .values = {}};
  std::mt19937_64 random(seed);
  for (std::uint32_t row = 0; row < from.n; row += from.modulus) {
    for (const std::int64_t offset : from.offsets) {
      const std::int64_t col = row + offset;
      if (col < 0 || col >= from.n || static_cast<double>(random() % 1000) >= 1000 * from.share) continue;
      out.index.push_back({.i = row, .j = static_cast<std::uint32_t>(col)});
      out.values.push_back(static_cast<std::uint16_t>(random() % (from.largest + 1)));
    }
  }
  return out;
}

bool is_taken(const BlockMatrix& a, const BlockMatrix& b) {
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .num_threads = 2};
  return !cpu::prepare(MemorySource(a), MemorySource(b), cpu::packed_shape(cpu::Isa::avx2, 1), run).diagonals.a.empty();
}

/// Every instruction set, large buffers and buffers of one record, against the oracle.
void check_diagonals(const BlockMatrix& a, const BlockMatrix& b) {
  const ProductMatrix expected = oracle_multiply(a, b);
  for (const std::string& isa : available_isas()) {
    INFO(isa);
    const ForcedIsa forced(isa);
    CHECK((run_cpu(a, b) == expected));
    CHECK((run_cpu(a, b, {.panel_bytes = 1, .num_buffers = 3}) == expected));
  }
}

std::vector<std::int64_t> band(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t offset = first; offset <= last; ++offset) offsets.push_back(offset);
  return offsets;
}

}  // namespace

TEST_CASE("cpu: products of diagonals, up to the corners of the matrix") {
  const std::vector<std::int64_t> grid = {-1010, -1000, -990, -1, 0, 1, 990, 1000, 1010};
  for (const std::uint32_t n : {8000u, 8031u, 8033u}) {
    for (const std::uint32_t largest : {0u, 2047u, 65'535u}) {
      INFO("n = " << n << ", elements to " << largest);
      const BlockMatrix a = matrix_of({.n = n, .offsets = grid, .largest = largest}, 1);
      const BlockMatrix b = matrix_of({.n = n, .offsets = grid, .largest = largest, .share = 0.9}, 2);
      CHECK(is_taken(a, b));
      check_diagonals(a, b);
      check_diagonals(b, a);
    }
  }
}

TEST_CASE("cpu: diagonals of one kind and another") {
  constexpr std::uint32_t kSide = 4000;
  const BlockMatrix wide = matrix_of({.n = kSide, .offsets = band(-8, 7), .largest = 65'535}, 3);
  const BlockMatrix narrow = matrix_of({.n = kSide, .offsets = {-1, 0, 1}}, 4);
  const BlockMatrix far = matrix_of({.n = kSide, .offsets = {-3990, -1, 0, 1, 3990}}, 5);
  const BlockMatrix single = matrix_of({.n = kSide, .offsets = {-37}}, 6);
  const BlockMatrix gaps = matrix_of({.n = kSide, .offsets = band(-8, 8), .modulus = 2}, 7);  // rows without elements
  for (const BlockMatrix* a : {&wide, &narrow, &far, &single, &gaps}) {
    for (const BlockMatrix* b : {&wide, &narrow, &far, &single, &gaps}) check_diagonals(*a, *b);
  }
  CHECK(is_taken(wide, narrow));
  CHECK(is_taken(narrow, far));
  CHECK(is_taken(wide, wide));
  CHECK(!is_taken(wide, gaps));  // tiles take less memory
}

TEST_CASE("cpu: too many diagonals, or hardly filled ones, are not taken") {
  const BlockMatrix narrow = matrix_of({.n = 4000, .offsets = {-1, 0, 1}}, 1);
  const BlockMatrix most = matrix_of({.n = 4000, .offsets = band(0, 63)}, 2);
  const BlockMatrix more = matrix_of({.n = 4000, .offsets = band(0, 64)}, 3);
  const BlockMatrix thin = matrix_of({.n = 4000, .offsets = band(0, 63), .share = 0.02}, 4);
  CHECK(is_taken(narrow, most));
  CHECK(!is_taken(narrow, more));
  CHECK(!is_taken(more, narrow));
  CHECK(!is_taken(thin, most));
  check_diagonals(narrow, more);
  check_diagonals(thin, most);
}

}  // namespace spmm::test
