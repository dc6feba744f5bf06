// Many products in one program: the engine keeps the device, its memory and the threads from one product to the next.
// A product that fails says why and the others go on.
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "spmm/spmm.hpp"

namespace {

namespace fs = std::filesystem;

/// One block (x, y) of 2 x 2, all elements `value`.
spmm::BlockMatrix one_block(std::uint32_t x, std::uint32_t y, std::uint16_t value) {
  return {.n = 4, .m = 2, .index = {{x, y}}, .values = {value, value, value, value}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const fs::path folder = argv[1];
  constexpr unsigned kNumProducts = 20;
  spmm::write_matrix(folder / "shared.bin", one_block(1, 0, 3));
  for (unsigned p = 0; p < kNumProducts; ++p) {
    spmm::write_matrix(folder / ("a" + std::to_string(p)), one_block(0, 1, static_cast<std::uint16_t>(p + 1)));
  }
  fs::remove(folder / "a7");

  spmm::Engine engine;
  std::atomic<unsigned> next{0};
  std::atomic<unsigned> num_done{0};
  const auto work = [&] {
    for (unsigned p = next++; p < kNumProducts; p = next++) {
      try {
        const spmm::Report report = engine.multiply(folder / ("a" + std::to_string(p)), folder / "shared.bin",
                                                    folder / ("c" + std::to_string(p)));
        num_done += report.c.num_blocks == 1 ? 1 : 0;
      } catch (const spmm::Error& error) {
        std::puts(error.what());
      }
    }
  };
  {
    // Two products at a time: one reads or writes while the other computes.
    const std::jthread second(work);
    work();
  }

  for (unsigned p = 0; p < kNumProducts; ++p) {
    const fs::path c = folder / ("c" + std::to_string(p));
    if (fs::exists(c) == (p == 7)) return 1;
    if (p == 7) continue;
    const std::uint32_t sum = 2 * (p + 1) * 3;
    if (spmm::read_product(c).values != std::vector<std::uint32_t>(4, sum)) return 1;
  }
  std::printf("%u of %u products\n", num_done.load(), kNumProducts);
  return num_done == kNumProducts - 1 ? 0 : 1;
}
