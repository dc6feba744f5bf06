// A folder with good and bad files, and spmm run inside it.
#include "cli/workplace.hpp"

#include <cstring>

#include "spmm/io.hpp"
#include "support/matrices.hpp"
#include "test_paths.hpp"

namespace spmm::test {
namespace {

namespace fs = std::filesystem;

std::string u32(std::uint32_t value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return bytes;
}

std::string header(std::uint32_t n, std::uint32_t m, std::uint32_t num_blocks) {
  return u32(n) + u32(m) + u32(num_blocks);
}

/// A record of m = 4 whose elements are all 1.
std::string record(std::uint32_t i, std::uint32_t j) {
  std::string bytes = u32(i) + u32(j);
  for (int e = 0; e < 16; ++e) bytes += std::string("\1\0", 2);
  return bytes;
}

}  // namespace

Workplace::Workplace() : a_(random_matrix(64, 4, 60, 65535, 1)), b_(random_matrix(64, 4, 70, 65535, 2)) {
  write_matrix("a.bin", a_);
  write_matrix("b.bin", b_);
  write_bytes("old.bin", kOldContent);
}

void Workplace::add_bad_files() {
  const std::string two = record(0, 0) + record(1, 1);
  write_bytes("empty.bin", "");
  write_bytes("short.bin", header(64, 4, 0).substr(0, 11));
  write_bytes("m0.bin", header(64, 0, 0));
  write_bytes("m65.bin", header(130, 65, 0));
  write_bytes("n0.bin", header(0, 4, 0));
  write_bytes("odd.bin", header(66, 4, 0));
  write_bytes("full.bin", header(8, 4, 5));
  write_bytes("cut.bin", header(64, 4, 3) + two);
  write_bytes("cut1.bin", header(64, 4, 2) + two.substr(0, two.size() - 1));
  write_bytes("norecords.bin", header(64, 4, 2));
  write_bytes("huge.bin", header(4294967292u, 4, 4294967295u));
  write_bytes("long.bin", header(64, 4, 2) + two + "x");
  write_bytes("row.bin", header(64, 4, 2) + record(0, 0) + record(16, 0));
  write_bytes("column.bin", header(64, 4, 2) + record(0, 0) + record(0, 4294967295u));
  write_bytes("twice.bin", header(64, 4, 3) + record(2, 3) + record(0, 0) + record(2, 3));
  write_bytes("bigendian.bin", std::string("\0\0\0\x40\0\0\0\4\0\0\0\0", 12));
  write_matrix("n128.bin", random_matrix(128, 4, 10, 9, 3));
  write_matrix("m8.bin", random_matrix(64, 8, 10, 9, 4));
  write_product("product.bin", {.n = 64, .m = 4, .index = {{0, 0}}, .values = std::vector<std::uint32_t>(16, 7)});
  fs::create_directory("folder");
}

std::vector<std::string> spmm_words(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {std::string(SPMM_BIN_DIR) + "/spmm"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

ProcessResult spmm_command(const std::vector<std::string>& arguments, const Variables& variables) {
  ProcessOptions options;
  options.env = variables;
  return run_process(spmm_words(arguments), options);
}

}  // namespace spmm::test
