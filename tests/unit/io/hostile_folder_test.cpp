// Folders of parts whose files are not what they are called.
#include <sys/stat.h>

#include <filesystem>

#include "io/formats/parts_index.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
namespace fs = std::filesystem;

/// A folder c of one empty part, with an index of these bytes.
void make_folder(const TempFolder& where, const std::string& index) {
  fs::remove_all(where / "c");
  fs::create_directory(where / "c");
  write_bytes(where / "c/part-000.bin", header_bytes(4, 2, 0));
  write_bytes(where / "c/index.json", index);
}

std::string index_of_one(const std::string& file) {
  return R"({"schema": 1, "n": 4, "m": 2, "blocks": 0, "bytes": 12, "parts": [{"file": ")" + file +
         R"(", "row_begin": 0, "row_end": 2, "blocks": 0, "bytes": 12, "crc32": "00000000"}]})";
}

std::string message_for(const TempFolder& where) {
  return message_of<FormatError>([&] { read_product(where / "c"); });
}

}  // namespace

TEST_CASE("an index leads to no file outside its folder") {
  const TempFolder folder;
  const std::string good = index_of_one("part-000.bin");
  make_folder(folder, good);
  CHECK(read_product(folder / "c").index.empty());
  write_bytes(folder / "part-000.bin", header_bytes(4, 2, 0));
  for (const char* name : {"../part-000.bin", "/etc/passwd", "part-000.bin/../../part-000.bin", "part-001.bin", ""}) {
    make_folder(folder, index_of_one(name));
    CHECK(contains(message_for(folder), "\"file\" is wrong, expected part-000.bin"));
  }
}

TEST_CASE("an index that is a link, a pipe or longer than any is rejected") {
  const TempFolder folder;
  const std::string good = index_of_one("part-000.bin");
  make_folder(folder, good + std::string((8u << 20) - good.size(), ' '));
  CHECK(read_product(folder / "c").index.empty());
  make_folder(folder, good + std::string((8u << 20) - good.size() + 1, ' '));
  CHECK(contains(message_for(folder), "c/index.json: has 8388609 bytes, expected at most 8388608"));
  make_folder(folder, good);
  fs::rename(folder / "c/index.json", folder / "elsewhere.json");
  fs::create_symlink(folder / "elsewhere.json", folder / "c/index.json");
  CHECK(contains(message_for(folder), "without an index that can be read"));
  fs::remove(folder / "c/index.json");
  REQUIRE(::mkfifo((folder / "c/index.json").c_str(), 0600) == 0);
  CHECK(contains(message_for(folder), "without an index that can be read"));
}

TEST_CASE("a part that is a pipe is rejected and not waited for") {
  const TempFolder folder;
  make_folder(folder, index_of_one("part-000.bin"));
  fs::remove(folder / "c/part-000.bin");
  REQUIRE(::mkfifo((folder / "c/part-000.bin").c_str(), 0600) == 0);
  CHECK_THROWS_AS(read_product(folder / "c"), InputError);
}
