// What a file is known by between products: the same while nothing changes, another one after every change.
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using Clock = std::chrono::steady_clock;

constexpr auto kSettled = std::chrono::milliseconds(50);  // more than the 20 ms that the program waits for

std::string one_block(std::uint64_t first_element) {
  return header_bytes(16, 2, 1) + record<std::uint16_t>(2, 1, 1, first_element);
}

std::optional<SourceIdentity> identity_now(const std::filesystem::path& path) {
  return open_file_source(path)->identity();
}

/// After its times have become old enough.
SourceIdentity settled_identity(const std::filesystem::path& path) {
  std::this_thread::sleep_for(kSettled);
  const auto identity = identity_now(path);
  REQUIRE(identity);
  return *identity;
}

}  // namespace

TEST_CASE("the identity of a file stays while the file does, and tells what is read") {
  const TempFolder folder;
  const auto path = folder / "x.bin";
  write_bytes(path, one_block(1));
  const SourceIdentity first = settled_identity(path);
  CHECK(identity_now(path) == first);
  std::filesystem::create_directory(folder / "sub");
  CHECK(identity_now(folder / "sub" / ".." / "x.bin") == first);
  CHECK(first.bytes == one_block(1).size());
  CHECK(first.header == MatrixHeader{.n = 16, .m = 2, .num_blocks = 1});
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK(first.inode == info.st_ino);
  CHECK(first.device == info.st_dev);

  write_bytes(folder / "y.bin", one_block(1));
  CHECK(settled_identity(folder / "y.bin") != first);
}

TEST_CASE("a file that was just changed has no identity, an open one loses its own when it is changed") {
  const TempFolder folder;
  const auto path = folder / "x.bin";
  const auto start = Clock::now();
  write_bytes(path, one_block(1));
  const auto identity = identity_now(path);
  const bool was_soon = Clock::now() - start < std::chrono::milliseconds(10);
  if (was_soon) CHECK_FALSE(identity);  // else this machine was too slow to tell

  std::this_thread::sleep_for(kSettled);
  const auto source = open_file_source(path);
  const auto before = source->identity();
  REQUIRE(before);
  write_bytes(path, one_block(2));
  CHECK(source->identity() != before);
}

TEST_CASE("a changed file has another identity: same size, same time of modification, or replaced") {
  const TempFolder folder;
  const auto path = folder / "x.bin";
  write_bytes(path, one_block(1));
  const SourceIdentity first = settled_identity(path);
  const auto modified = std::filesystem::last_write_time(path);

  write_bytes(path, one_block(2));
  const SourceIdentity second = settled_identity(path);
  CHECK(second != first);
  CHECK(second.is_same_file(first));

  std::filesystem::last_write_time(path, modified);  // as rsync or cp -p do
  const SourceIdentity third = settled_identity(path);
  CHECK(third.modified_ns == first.modified_ns);
  CHECK(third != first);

  write_bytes(folder / "new.bin", one_block(1));
  std::filesystem::rename(folder / "new.bin", path);
  CHECK_FALSE(settled_identity(path).is_same_file(first));
}

TEST_CASE("a matrix in memory has no identity") {
  const BlockMatrix matrix{.n = 4, .m = 2, .index = {{0, 1}}, .values = {1, 2, 3, 4}};
  CHECK_FALSE(make_memory_source(matrix, "matrix")->identity());
}
