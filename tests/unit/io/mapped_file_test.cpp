// Files written through mappings: the bytes of pwrite, whatever the order and the ranges.
#include "io/system/mapped_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

#include "io/files/file_sink.hpp"
#include "support/catch.hpp"
#include "unit/io/io_support.hpp"

namespace spmm::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kRange = io::MappedFile::kRangeBytes;
constexpr std::uint64_t kPiece = 5u << 20;  // no divisor of a range

/// Bytes that repeat after a length that divides no range and no piece; copied, for there are gigabytes of them.
std::vector<std::byte> pattern(std::uint64_t offset, std::uint64_t size) {
  constexpr std::size_t kPeriod = 1'000'003;
  static const std::vector<std::byte> kOnce = [] {
    std::vector<std::byte> bytes(kPeriod);
    for (std::uint64_t x = 0; x < kPeriod; ++x) bytes[x] = static_cast<std::byte>(x * 2654435761u >> 13);
    return bytes;
  }();
  std::vector<std::byte> bytes(size);
  for (std::uint64_t x = 0; x < size;) {
    const std::uint64_t at = (offset + x) % kPeriod;
    const std::uint64_t count = std::min(size - x, kPeriod - at);
    std::copy_n(kOnce.begin() + static_cast<std::ptrdiff_t>(at), count, bytes.begin() + static_cast<std::ptrdiff_t>(x));
    x += count;
  }
  return bytes;
}

/// Writes a result of `num_blocks` blocks of side 64 and returns its bytes.
std::vector<char> written(const fs::path& path, bool maps, unsigned num_writers, std::uint32_t num_blocks) {
  constexpr std::uint32_t kM = 64;
  constexpr std::uint32_t kBlocksPerSlice = 500;
  const auto sink = io::open_tuned_file_sink(path, kM, {}, {.maps = maps, .num_writers = num_writers});
  std::vector<std::vector<std::byte>> slices;
  std::atomic<unsigned> num_released{0};
  for (std::uint32_t b = 0; b < num_blocks; b += kBlocksPerSlice) {
    const std::uint64_t count = std::min(kBlocksPerSlice, num_blocks - b);
    slices.push_back(pattern(b, count * output_record_bytes(kM)));
  }
  for (std::size_t x = 0; x < slices.size(); ++x) {
    sink->write(x * kBlocksPerSlice, slices[x], [&] { ++num_released; });
  }
  sink->finish({.n = kM * num_blocks, .m = kM, .num_blocks = num_blocks});
  CHECK(num_released == slices.size());
  sink->publish();
  std::vector<char> bytes(fs::file_size(path));
  std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

TEST_CASE("mapped ranges take bytes in any order and leave the rest to others") {
  const TemporaryFolder folder;
  const int fd = ::open((folder / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0);
  REQUIRE(::ftruncate(fd, 3 * kRange) == 0);
  {
    io::MappedFile mapped;
    REQUIRE(mapped.add(fd, 0, 2 * kRange));
    const auto write_all = [&](std::uint64_t begin, std::uint64_t end) {
      std::uint64_t rejected = 0;
      for (std::uint64_t at = begin; at < end;) {
        const auto bytes = pattern(at, std::min(kPiece, end - at));
        const std::size_t taken = mapped.write(at, bytes);
        if (taken == 0) {
          rejected += bytes.size();
          at += bytes.size();
        }
        at += taken;
      }
      return rejected;
    };
    CHECK(write_all(kRange + 7, 2 * kRange) == 0);
    CHECK(write_all(0, kRange + 7) == 0);
    CHECK(write_all(2 * kRange, 2 * kRange + 100) == 100);  // never added
    CHECK(write_all(5, 6) == 1);                            // full, so no longer mapped
  }
  std::vector<std::byte> read(1u << 20);
  for (std::uint64_t at = 0; at < 2 * kRange; at += read.size()) {
    REQUIRE(::pread(fd, read.data(), read.size(), static_cast<off_t>(at)) == static_cast<ssize_t>(read.size()));
    REQUIRE((read == pattern(at, read.size())));
  }
  ::close(fd);
}

TEST_CASE("a result written through mappings has the bytes and the length of one written by pwrite") {
  const TemporaryFolder folder;
  // Below what is reserved ahead; a few ranges; the last range nearly full.
  for (const std::uint32_t num_blocks : {10u, 5000u, 12'000u}) {
    const auto expected = written(folder / "pwrite", false, 2, num_blocks);
    CHECK(expected.size() == kHeaderBytes + num_blocks * output_record_bytes(64));
    for (const unsigned num_writers : {0u, 1u, 5u}) {
      if (num_blocks != 10 && num_writers != 5) continue;  // 80 and 200 MB each
      INFO(num_blocks << " blocks, " << num_writers << " writers");
      CHECK((written(folder / "mapped", true, num_writers, num_blocks) == expected));
    }
  }
}

}  // namespace
}  // namespace spmm::test
