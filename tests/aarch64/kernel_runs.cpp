// Runs a kernel of the CPU on pairs of random blocks, so that an emulator can count its instructions:
// kernel_runs M LARGEST_ELEMENT REPEATS. SPMM_CPU_ISA says which kernel. The instructions of one more repetition are
// those of kCBlocks * kPairs pairs, with what belongs to the records of kCBlocks C blocks.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "cpu/simd/kernels.hpp"
#include "spmm/types.hpp"

namespace {

using namespace spmm;

constexpr std::uint32_t kCBlocks = 16;
constexpr std::uint32_t kPairs = 16;   // of each C block
constexpr std::uint32_t kBlocks = 32;  // of A and of B

AlignedArray<std::uint16_t> random_elements(std::uint64_t count, std::uint32_t largest) {
  AlignedArray<std::uint16_t> elements(count);
  std::mt19937 random(1);
  for (std::uint64_t e = 0; e < count; ++e) elements[e] = static_cast<std::uint16_t>(random() % (largest + 1));
  return elements;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto m = static_cast<std::uint32_t>(std::atoi(argv[1]));
  const auto largest = static_cast<std::uint32_t>(std::atoi(argv[2]));
  const int repeats = std::atoi(argv[3]);
  const cpu::Isa isa = cpu::choose_isa();
  const cpu::PackedShape shape = cpu::packed_shape(isa, m);
  const cpu::Arithmetic arithmetic = cpu::choose_arithmetic(shape, largest, largest);
  const AlignedArray<std::uint16_t> a = random_elements(kBlocks * shape.a_elements(), largest);
  const AlignedArray<std::uint16_t> b = random_elements(kBlocks * shape.b_elements(), largest);
  AlignedArray<std::uint32_t> row_sums(std::uint64_t{kBlocks} * shape.rows);
  for (std::uint64_t row = 0; row < row_sums.size(); ++row) {
    row_sums[row] = 0;
    for (std::uint32_t t = 0; t < shape.inner; ++t) row_sums[row] += a[row * shape.inner + t];
  }
  std::array<cpu::CBlock, kCBlocks> c_blocks;
  std::vector<cpu::PairRef> pairs(kCBlocks * kPairs + cpu::kPairsAhead);
  for (std::uint32_t p = 0; p < pairs.size(); ++p) pairs[p] = {.a = p % kBlocks, .b = p * 7 % kBlocks};
  for (std::uint32_t c = 0; c < kCBlocks; ++c) c_blocks[c] = {.col = c, .end = (c + 1) * kPairs};
  const cpu::MultiplyCBlocks multiply = cpu::choose_kernel(isa, shape, arithmetic);
  std::vector<std::byte> records((kCBlocks + 8) * output_record_bytes(m));
  std::size_t written = 0;
  for (int r = 0; r < repeats; ++r) {
    const std::byte* const end = multiply(
        {.a = a.data(), .b = b.data(), .a_row_sums = row_sums.data(), .shape = shape, .arithmetic = arithmetic},
        {.row = 0, .c_blocks = c_blocks, .begin = 0, .pairs = pairs.data()}, records.data());
    written = static_cast<std::size_t>(end - records.data());
  }
  std::cout << "pairs " << kCBlocks * kPairs << "\n";
  return written == kCBlocks * output_record_bytes(m) ? 0 : 1;
}
