// A matrix whose file changes between the check of its indices and the reading of its elements.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/wrapped_calls.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

int num_first_reads = 0;

/// From the second reading on the first record lies in another block row.
ssize_t pread_of_changed(int fd, void* to, size_t size, off_t offset) {
  const ssize_t got = real_calls.pread(fd, to, size, offset);
  if (offset == static_cast<off_t>(kHeaderBytes) && num_first_reads++ > 0) std::memset(to, 0xFF, 4);
  return got;
}

std::filesystem::path growing;

/// With the second reading the file becomes longer.
ssize_t pread_of_growing(int fd, void* to, size_t size, off_t offset) {
  if (offset == static_cast<off_t>(kHeaderBytes) && num_first_reads++ == 1) {
    std::ofstream(growing, std::ios::app | std::ios::binary) << "more";
  }
  return real_calls.pread(fd, to, size, offset);
}

}  // namespace

TEST_CASE("no matrix is returned of a file that grew while it was read") {
  const TempFolder folder;
  growing = folder / "a.bin";
  write_bytes(growing, header_bytes(4, 2, 2) + record16(2, 0, 1) + record16(2, 1, 0));
  const auto before = system_calls;
  system_calls.pread = pread_of_growing;
  num_first_reads = 0;
  const std::string message = message_of<FormatError>([&] { read_matrix(growing); });
  system_calls = before;
  CHECK(contains(message, "a.bin"));
  CHECK(num_first_reads == 2);
}

TEST_CASE("no matrix is returned whose blocks moved out of it while it was read") {
  const TempFolder folder;
  write_bytes(folder / "a.bin", header_bytes(4, 2, 2) + record16(2, 0, 1) + record16(2, 1, 0));
  const auto before = system_calls;
  system_calls.pread = pread_of_changed;
  num_first_reads = 0;
  const std::string message = message_of<FormatError>([&] { read_matrix(folder / "a.bin"); });
  system_calls = before;
  CHECK(contains(message, "record 0 (byte offset 12): block index (4294967295, 1) is out of range"));
  CHECK(num_first_reads == 2);
}
