// spmm-convert on matrix files with blocks at wrong places.
#include <cstring>
#include <filesystem>

#include "spmm/types.hpp"
#include "support/catch.hpp"
#include "unit/convert/support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

/// Little-endian.
std::string le32(std::uint32_t value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// A result of 1 x 1 blocks at these places.
std::string result_file(std::uint32_t n, const std::vector<BlockIndex>& places) {
  std::string file = le32(n) + le32(1) + le32(static_cast<std::uint32_t>(places.size()));
  for (const BlockIndex& at : places) file += le32(at.i) + le32(at.j) + le32(7);
  return file;
}

}  // namespace

TEST_CASE("convert: blocks in any order, outside of the matrix, and twice", "[convert]") {
  const TemporaryFolder folder;
  const std::string path = folder.file("c.bin");
  const std::string out = folder.file("out");
  const auto message = [&](const std::vector<BlockIndex>& places, const std::string& to) {
    write_content(path, result_file(4, places));
    return run_convert({path, out, "--to", to, "--transpose"}).err;
  };
  for (const std::string to : {"bin", "mtx"}) {
    CHECK(message({{.i = 2, .j = 0}, {.i = 0, .j = 1}, {.i = 2, .j = 3}}, to).empty());
    std::filesystem::remove(out);
    CHECK(message({{.i = 0, .j = 1}, {.i = 2, .j = 4}}, to).find("c.bin, record 1 (byte offset 24)") !=
          std::string::npos);
    CHECK(message({{.i = 0, .j = 1}, {.i = 0, .j = 1}}, to).find("c.bin, record 1 (byte offset 24)") !=
          std::string::npos);
    CHECK(
        message({{.i = 2, .j = 1}, {.i = 0, .j = 1}, {.i = 2, .j = 1}}, to).find("c.bin, record 2 (byte offset 36)") !=
        std::string::npos);
    CHECK_FALSE(std::filesystem::exists(out));
  }
}

TEST_CASE("convert: memory is 24 bytes for each element, and 20 MB", "[convert]") {
  constexpr std::uint32_t kElements = 1'000'000;
  const TemporaryFolder folder;
  {
    std::ofstream mtx(folder.file("a.mtx"));  // all in one block row, far apart: each side takes the most
    mtx << "%%MatrixMarket matrix coordinate integer general\n2 30000000 " << kElements << "\n";
    for (std::uint32_t e = 0; e < kElements; ++e) mtx << e % 2 + 1 << ' ' << e * 29 + 1 << " 7\n";
  }
  for (const std::string block : {"auto", "2"}) {
    const ProcessResult result = run_convert({folder.file("a.mtx"), folder.file("a.bin"), "--block", block});
    INFO(result.err << result.peak_resident_bytes);
    CHECK(result.exit_code == 0);
    CHECK(stayed_below(result, 24 * kElements + 20'000'000));
  }
}
