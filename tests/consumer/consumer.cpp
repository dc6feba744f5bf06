// Multiplies in memory and through files with the installed library and checks both against a product done by hand.
#include <cstdio>
#include <filesystem>
#include <string>

#include "spmm/spmm.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path folder = argv[1];
  // [1 2; 3 4] at (0, 0) times [5 6; 7 65535] at (0, 1), and a block of A that meets nothing.
  const spmm::BlockMatrix a{.n = 4, .m = 2, .index = {{0, 0}, {1, 1}}, .values = {1, 2, 3, 4, 9, 9, 9, 9}};
  const spmm::BlockMatrix b{.n = 4, .m = 2, .index = {{0, 1}}, .values = {5, 6, 7, 65535}};
  const spmm::ProductMatrix expected{
      .n = 4, .m = 2, .index = {{0, 1}}, .values = {19, 6 + 2 * 65535, 43, 18 + 4 * 65535}};

  spmm::Report report;
  if (spmm::multiply(a, b, {{.num_threads = 2}, {}}, &report) != expected) {
    std::puts("the product in memory is wrong");
    return 1;
  }
  if (report.pairs != 1 || report.c.num_blocks != 1) {
    std::puts("the report is wrong");
    return 1;
  }

  spmm::write_matrix(folder / "a.bin", a);
  spmm::write_matrix(folder / "b.bin", b);
  spmm::multiply(folder / "a.bin", folder / "b.bin", folder / "c.bin");
  if (spmm::read_product(folder / "c.bin") != expected) {
    std::puts("the product in a file is wrong");
    return 1;
  }

  try {
    spmm::multiply(a, spmm::BlockMatrix{.n = 6, .m = 2, .index = {}, .values = {}});
    std::puts("different shapes were multiplied");
    return 1;
  } catch (const spmm::ShapeError&) {
  }
  std::puts(spmm::version_string().c_str());
  return 0;
}
