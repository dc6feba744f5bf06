// What a file is known by between products: the same while nothing changes, another one after every change.
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "io/factor_source.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

constexpr auto kSettled = std::chrono::milliseconds(50);  // more than a tick of the file system's clock

std::string one_block(std::uint64_t first_element) {
  return header_bytes(16, 2, 1) + record<std::uint16_t>(2, 1, 1, first_element);
}

std::string identity_now(const std::filesystem::path& path) {
  return open_file_source(path)->identity();
}

/// After its times have become old enough.
std::string settled_identity(const std::filesystem::path& path) {
  std::this_thread::sleep_for(kSettled);
  const auto identity = identity_now(path);
  REQUIRE_FALSE(identity.empty());
  return identity;
}

}  // namespace

TEST_CASE("the identity of a file stays while the file does, and tells what is read") {
  const TemporaryFolder folder;
  const auto path = folder / "x.bin";
  write_bytes(path, one_block(1));
  const std::string first = settled_identity(path);
  CHECK(identity_now(path) == first);
  std::filesystem::create_directory(folder / "sub");
  CHECK(identity_now(folder / "sub" / ".." / "x.bin") == first);
  write_bytes(folder / "y.bin", one_block(1));
  CHECK(settled_identity(folder / "y.bin") != first);
}

TEST_CASE("a changed file has another identity: same size, same time of modification, or replaced") {
  const TemporaryFolder folder;
  const auto path = folder / "x.bin";
  write_bytes(path, one_block(1));
  const std::string first = settled_identity(path);
  const auto modified = std::filesystem::last_write_time(path);

  write_bytes(path, one_block(2));
  const std::string second = settled_identity(path);
  CHECK(second != first);

  std::filesystem::last_write_time(path, modified);  // as rsync or cp -p do
  const std::string third = settled_identity(path);
  CHECK(third != first);

  write_bytes(folder / "new.bin", one_block(1));
  std::filesystem::rename(folder / "new.bin", path);
  CHECK(settled_identity(path) != third);
}

TEST_CASE("a transposed operand has an identity of its own") {
  const TemporaryFolder folder;
  write_bytes(folder / "x.bin", one_block(1));
  const std::string plain = settled_identity(folder / "x.bin");
  const auto source = open_file_source(folder / "x.bin");
  StageClock clock;
  const ProgressFn no_progress;
  const auto transposed = io::make_factor_source(*source, true, {}, {.clock = clock, .on_progress = no_progress});
  CHECK_FALSE(transposed->identity().empty());
  CHECK(transposed->identity() != plain);
}

TEST_CASE("a matrix in memory has no identity") {
  const BlockMatrix matrix{.n = 4, .m = 2, .index = {{0, 1}}, .values = {1, 2, 3, 4}};
  CHECK(make_memory_source(matrix, "matrix")->identity().empty());
}
