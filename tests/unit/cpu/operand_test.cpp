// Operands against a plain sort: skewed rows, words of 8 and of 16 bytes, positions that are out of range or occur
// twice.
#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cpu/operands/operand.hpp"
#include "cpu/operands/prepared.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/memory_stream.hpp"

namespace spmm::test {
namespace {

const ProgressFn kNoProgress;

cpu::PackedOperand build(const BlockMatrix& matrix, unsigned num_threads) {
  StageClock clock;
  const Run run{.clock = clock, .on_progress = kNoProgress, .cancel = nullptr, .num_threads = num_threads};
  const MemorySource source(matrix, "a.bin");
  Progress progress(run, Stage::read, 1);
  return cpu::build_operand(source, cpu::Side::a, cpu::packed_shape(cpu::Isa::portable, matrix.m), progress, run);
}

/// Whether the operand holds the blocks in order of (i, j), each row once.
bool is_sorted_operand(const BlockMatrix& matrix, const cpu::PackedOperand& operand) {
  std::vector<std::size_t> order(matrix.index.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t x) { return std::uint64_t{matrix.index[x].i} << 32 | matrix.index[x].j; };
  std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return key(x) < key(y); });
  const std::size_t elements = std::size_t{matrix.m} * matrix.m;
  std::vector<std::uint32_t> rows;
  std::vector<std::uint32_t> row_ptr;
  bool same = operand.cols.size() == order.size();
  for (std::size_t x = 0; same && x < order.size(); ++x) {
    const BlockIndex at = matrix.index[order[x]];
    if (rows.empty() || rows.back() != at.i) {
      rows.push_back(at.i);
      row_ptr.push_back(static_cast<std::uint32_t>(x));
    }
    same = operand.cols[x] == at.j &&
           std::equal(operand.values.data() + x * elements, operand.values.data() + (x + 1) * elements,
                      matrix.values.data() + order[x] * elements);
  }
  row_ptr.push_back(static_cast<std::uint32_t>(order.size()));
  std::uint32_t bits = 0;
  for (const std::uint16_t value : matrix.values) bits |= value;
  return same && std::equal(rows.begin(), rows.end(), operand.rows.begin(), operand.rows.end()) &&
         std::equal(row_ptr.begin(), row_ptr.end(), operand.row_ptr.begin(), operand.row_ptr.end()) &&
         operand.seen_bits == bits;
}

/// Blocks at distinct positions in the given rows and columns.
BlockMatrix spread_matrix(std::uint32_t nb, std::uint32_t m, std::uint32_t k, std::uint32_t num_rows) {
  std::mt19937_64 random(k);
  BlockMatrix matrix{.n = nb * m, .m = m, .index = {}, .values = {}};
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  while (seen.size() < k) {
    const auto at =
        std::pair{static_cast<std::uint32_t>(random() % num_rows), static_cast<std::uint32_t>(random() % nb)};
    if (seen.insert(at).second) matrix.index.push_back({.i = at.first, .j = at.second});
  }
  matrix.values.resize(std::size_t{k} * m * m);
  for (std::uint16_t& value : matrix.values) value = static_cast<std::uint16_t>(random());
  return matrix;
}

TEST_CASE("cpu: operands are in order, in words of 8 and of 16 bytes") {
  struct Shape {
    std::uint32_t nb;
    std::uint32_t m;
    std::uint32_t k;
    std::uint32_t num_rows;
    std::uint32_t word_bytes;
  };
  for (const Shape& shape : {Shape{1, 1, 1, 1, 8}, Shape{3, 1, 7, 3, 8}, Shape{1000, 1, 20'000, 1000, 8},
                             Shape{5000, 3, 5000, 2, 8}, Shape{1u << 28, 1, 3000, 1u << 28, 8},
                             Shape{0xFFFF'FFFFu, 1, 3000, 0xFFFF'FFFFu, 16}, Shape{1u << 20, 2, 50'000, 1u << 20, 8},
                             Shape{1u << 30, 2, 33'000, 1u << 30, 16}, Shape{5000, 4, 40'000, 5000, 8}}) {
    for (const unsigned num_threads : {1u, 3u}) {
      INFO(shape.nb << " x " << shape.nb << ", m " << shape.m << ", " << shape.k << " blocks, " << num_threads
                    << " threads");
      BlockMatrix matrix = spread_matrix(shape.nb, shape.m, shape.k, shape.num_rows);
      CHECK(cpu::key_bits(matrix.header()).word_bytes() == shape.word_bytes);
      CHECK(is_sorted_operand(matrix, build(matrix, num_threads)));
      std::sort(matrix.index.begin(), matrix.index.end(),
                [](const BlockIndex& x, const BlockIndex& y) { return std::pair(x.i, x.j) < std::pair(y.i, y.j); });
      CHECK(is_sorted_operand(matrix, build(matrix, num_threads)));
    }
  }
}

TEST_CASE("cpu: of indices out of range the first record is named, whatever its piece") {
  constexpr std::uint32_t kBlocks = 3 * 65'536 + 17;
  BlockMatrix matrix = spread_matrix(5000, 1, kBlocks, 5000);
  CHECK(is_sorted_operand(matrix, build(matrix, 3)));
  matrix.index[kBlocks - 1].j = 5000;
  CHECK(message_of<FormatError>([&] { build(matrix, 3); }).find(" " + std::to_string(kBlocks - 1) + " ") !=
        std::string::npos);
  matrix.index[70'000].i = 0xFFFF'FFFFu;
  matrix.index[70'001].i = 5000;
  CHECK(message_of<FormatError>([&] { build(matrix, 3); }).find("record 70000 ") != std::string::npos);
}

TEST_CASE("cpu: the first position that occurs twice is named with its first two records") {
  for (const std::uint32_t m : {1u, 4u}) {
    for (const std::uint32_t nb : {300u, m == 1 ? 0xFFFF'FFFFu : (1u << 30) - 1}) {
      BlockMatrix matrix = spread_matrix(nb, m, 40'000, 200);
      matrix.index[39'000] = matrix.index[30'000] = matrix.index[20'000] = {.i = 200, .j = 77};
      matrix.index[500] = matrix.index[10] = {.i = 201, .j = 3};
      const std::string message = message_of<FormatError>([&] { build(matrix, 3); });
      INFO("m " << m << ", " << nb << " block rows: " << message);
      CHECK(message.find("20000") != std::string::npos);
      CHECK(message.find("30000") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace spmm::test
