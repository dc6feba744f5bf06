// spmm-convert on files that were made to do harm, and on files that change while they are read.
#include <array>
#include <cstring>
#include <filesystem>

#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "tools/convert/blocks/walk.hpp"
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

void overwrite(const std::string& path, std::size_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file << bytes;
}

template <class Action>
std::string message_of_error(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

std::string message_of_walk(tools::BlockWalk& walk) {
  return message_of_error([&] {
    while (walk.next()) {
    }
  });
}

struct Case {
  std::vector<std::string> arguments;
  int exit_code;
  std::string message;  ///< a part of it
};

}  // namespace

TEST_CASE("convert: exit codes of what cannot be converted", "[convert]") {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& name) { return folder.file(name); };
  write_content(file("good.mtx"), "%%MatrixMarket matrix coordinate integer general\n3 2 1\n3 2 5\n");
  write_content(file("huge.bin"), le32(4294967295u) + le32(1) + le32(0));
  write_content(file("side.bin"), le32(6) + le32(3) + le32(0));
  write_content(file("noname"), "nothing of the kind, and no ending");
  write_content(file("short.bin"), "short");
  std::filesystem::create_directory(file("folder"));
  const std::vector<Case> cases = {
      {{file("missing.mtx"), file("out.bin")}, 66, file("missing.mtx") + ": cannot open the file"},
      {{file("folder"), file("out.mtx")}, 65, "is a folder without an index that can be read"},
      {{file("good.mtx")}, 2, "output file"},
      {{file("good.mtx"), file("out.bin"), "more"}, 2, "more"},
      {{file("good.mtx"), file("out.npz")}, 2, "ends in .npz, a format of NumPy"},
      {{file("noname"), file("out.bin")}, 2, "neither its content nor its ending"},
      {{file("huge.bin"), file("out.what")}, 2, "its ending does not say which format"},
      {{file("good.mtx"), file("out.bin"), "--block", "65"}, 2, "--block: 65 is out of range"},
      {{file("good.mtx"), file("out.bin"), "--n", "2"}, 2, "n = 2 is less than the 3 x 2"},
      {{file("good.mtx"), file("out.bin"), "--n", "4", "--block", "3"}, 2, "4 is not a multiple of --block 3"},
      {{file("good.mtx"), file("out.bin"), "--like", file("side.bin"), "--n", "6"}, 2, "both say the size"},
      {{file("good.mtx"), file("out.bin"), "--like", file("short.bin")}, 65, file("short.bin")},
      {{file("good.mtx"), file("out.bin"), "--scale", "inf"}, 2, "is not a factor"},
      {{file("good.mtx"), file("out.bin"), "--scale", "0.3"}, 65, "line 3: the element at row 3, column 2"},
      {{file("good.mtx"), file("out.bin"), "--shape", "1x1"}, 2, "is only for what is made from a .bin"},
      {{file("huge.bin"), file("out.mtx"), "--shape", "7"}, 2, "is not a shape"},
      {{file("side.bin"), file("out.mtx"), "--shape", "7x6"}, 2, "7x6 is larger than n = 6"},
      {{file("short.bin"), file("out.mtx")}, 65, file("short.bin") + ", byte offset 5"},
      {{file("good.mtx"), file("folder")}, 73, "is a directory"},
      {{file("good.mtx"), file("none/out.bin")}, 73, "cannot use the folder"},
      {{file("good.mtx"), file("good.mtx"), "--to", "bin"}, 2, "is the same file as the input"}};
  for (const Case& one : cases) {
    const ProcessResult result = run_convert(one.arguments);
    INFO(one.message << "\n" << result.err);
    CHECK(result.exit_code == one.exit_code);
    CHECK(result.out == "");
    CHECK(result.err.find("spmm-convert: error: ") == 0);
    CHECK(result.err.find(one.message) != std::string::npos);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    CHECK(entry.path().filename().string().substr(0, 3) != "out");
  }
}

TEST_CASE("convert: blocks that change between two readings are an error", "[convert]") {
  const TemporaryFolder folder;
  const std::string path = folder.file("c.bin");
  const std::vector<BlockIndex> ordered = {{.i = 0, .j = 1}, {.i = 2, .j = 0}, {.i = 2, .j = 3}};
  const std::vector<BlockIndex> swapped = {{.i = 2, .j = 0}, {.i = 0, .j = 1}, {.i = 2, .j = 3}};
  const std::vector<BlockIndex> outside = {{.i = 0, .j = 1}, {.i = 2, .j = 0}, {.i = 9, .j = 3}};
  for (const bool transposed : {false, true}) {
    for (const auto& [before, after] : {std::pair{ordered, swapped}, std::pair{ordered, outside},
                                        std::pair{swapped, ordered}, std::pair{swapped, outside}}) {
      write_content(path, result_file(4, before));
      const tools::MatrixFile matrix = tools::open_matrix(path, ElementType::u32, ElementType::u32);
      tools::BlockWalk walk(matrix, {.shape = {.rows = 4, .columns = 4}, .transposed = transposed});
      overwrite(path, 0, result_file(4, after));
      // A file of a few records in order is read once; one that needs an index, a second time.
      const bool is_indexed = transposed || before == swapped;
      CHECK(message_of_walk(walk).find(is_indexed ? "c.bin: the file changed while it was read" : "nothing") !=
            std::string::npos);
    }
  }
}

TEST_CASE("convert: a long file in order that is not in order any more is an error", "[convert]") {
  constexpr std::uint32_t kM = 64;
  constexpr std::uint32_t kBlocks = 400;
  const std::string elements(kM * kM * 4, '\1');
  std::string content = le32(kBlocks * kM) + le32(kM) + le32(kBlocks);
  for (std::uint32_t j = 0; j < kBlocks; ++j) content += le32(0) + le32(j) + elements;
  const TemporaryFolder folder;
  const std::string path = folder.file("c.bin");
  for (const std::uint32_t j : {0u, kBlocks}) {
    write_content(path, content);
    const tools::MatrixFile matrix = tools::open_matrix(path, ElementType::u32, ElementType::u32);
    tools::BlockWalk walk(matrix, {.shape = {.rows = kBlocks * kM, .columns = kBlocks * kM}});
    overwrite(path, 12 + (8 + elements.size()) * 2 + 4, le32(j));
    CHECK(message_of_walk(walk).find("c.bin: the file changed while it was read") != std::string::npos);
  }
}
