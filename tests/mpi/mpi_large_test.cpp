// Files beyond 4 GiB: offsets of shares and ranges need more than 32 bits.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "base/memory/machine_memory.hpp"
#include "mpi/mpi_place.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm::test;

constexpr std::uint32_t kSide = 64;
constexpr std::uint64_t kRecord = 8 + 2 * kSide * kSide;
constexpr std::uint32_t kBlocks = 640'000;  // 5.2 GB: of 7 ranks the last one's share begins beyond 4 GiB
constexpr int kSevenRanks = 7;
constexpr std::uint64_t kFourGiB = std::uint64_t{4} << 30;

/// A record's head and its first element; the rest of it is a hole.
void put_record(int fd, std::uint64_t record, std::uint32_t i, std::uint32_t j, std::uint16_t value) {
  char bytes[10];
  std::memcpy(bytes, &i, 4);
  std::memcpy(bytes + 4, &j, 4);
  std::memcpy(bytes + 8, &value, 2);
  if (::pwrite(fd, bytes, sizeof bytes, static_cast<off_t>(12 + record * kRecord)) != sizeof bytes) FAIL("no space");
}

/// A on the diagonal, its blocks in the order of the file, with these first elements; zero elsewhere.
void write_diagonal(const std::string& path, const std::map<std::uint32_t, std::uint16_t>& values) {
  const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  REQUIRE(fd >= 0);
  const std::uint32_t header[3] = {kBlocks * kSide, kSide, kBlocks};
  REQUIRE(::pwrite(fd, header, sizeof header, 0) == sizeof header);
  REQUIRE(::ftruncate(fd, static_cast<off_t>(12 + kBlocks * kRecord)) == 0);
  for (std::uint32_t r = 0; r < kBlocks; ++r) {
    const auto value = values.find(r);
    put_record(fd, r, r, r, value == values.end() ? std::uint16_t{0} : value->second);
  }
  ::close(fd);
}

/// In memory: a disk's file system takes long to remove half a million holes.
constexpr const char* kFolder = "/dev/shm";

bool has_room() {
  struct statvfs memory {};
  const bool is_there =
      ::statvfs(kFolder, &memory) == 0 && memory.f_bavail * memory.f_frsize > (std::uint64_t{4} << 30);
  return is_there && spmm::available_memory_bytes() > (std::uint64_t{14} << 30);
}

/// A new MpiPlace lies there while this lives.
class TemporaryFilesThere {
 public:
  TemporaryFilesThere() {
    if (const char* const before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", kFolder, 1);
  }
  ~TemporaryFilesThere() {
    if (before_.empty()) {
      ::unsetenv("TMPDIR");
    } else {
      ::setenv("TMPDIR", before_.c_str(), 1);
    }
  }
  TemporaryFilesThere(const TemporaryFilesThere&) = delete;
  TemporaryFilesThere& operator=(const TemporaryFilesThere&) = delete;

 private:
  std::string before_;
};

}  // namespace

TEST_CASE("shares of a file beyond 4 GiB, at the border of two ranks and at 4 GiB", "[slow]") {
  if (!has_room()) {
    WARN("skipped: needs 14 GiB of free memory, 4 GiB of it in " << kFolder);
    return;
  }
  const TemporaryFilesThere there;
  const MpiPlace place;
  constexpr std::uint64_t kBorder = std::uint64_t{kBlocks} * (kSevenRanks - 1) / kSevenRanks;
  static_assert(12 + kBorder * kRecord > kFourGiB);
  std::map<std::uint32_t, std::uint16_t> values;
  for (const std::uint64_t near : {std::uint64_t{1}, kFourGiB / kRecord, kBorder, std::uint64_t{kBlocks - 2}}) {
    for (std::uint64_t r = near - 1; r <= near + 1; ++r) {
      values[static_cast<std::uint32_t>(r)] = static_cast<std::uint16_t>(r % 60'000 + 1);
    }
  }
  write_diagonal("x.bin", values);
  spmm::BlockMatrix b{.n = kBlocks * kSide, .m = kSide, .index = {}, .values = {}};
  for (const auto& [row, value] : values) {
    b.index.push_back({.i = row, .j = 5});
    b.values.resize(b.index.size() * kSide * kSide, 0);
    b.values[(b.index.size() - 1) * kSide * kSide] = 3;
  }
  spmm::write_matrix("y.bin", b);
  const auto result = run_ranks(kSevenRanks, {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  const spmm::ProductMatrix c = spmm::read_product("z.bin");
  REQUIRE(c.index.size() == values.size());
  std::size_t block = 0;
  for (const auto& [row, value] : values) {
    CHECK(c.index[block] == spmm::BlockIndex{.i = row, .j = 5});
    CHECK(c.values[block * kSide * kSide] == 3u * value);
    CHECK(c.values[block * kSide * kSide + 1] == 0);
    ++block;
  }
}
