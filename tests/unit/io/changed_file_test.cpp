// A matrix whose file changes while it is read.
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

std::filesystem::path growing;

/// With the first reading the file becomes longer.
ssize_t pread_of_growing(int fd, void* to, size_t size, off_t offset) {
  if (offset == static_cast<off_t>(kHeaderBytes) && num_first_reads++ == 0) {
    std::ofstream(growing, std::ios::app | std::ios::binary) << "more";
  }
  return real_calls.pread(fd, to, size, offset);
}

}  // namespace

TEST_CASE("no matrix is returned of a file that grew while it was read") {
  const TemporaryFolder folder;
  growing = folder / "a.bin";
  write_bytes(growing, header_bytes(4, 2, 2) + record16(2, 0, 1) + record16(2, 1, 0));
  const auto before = system_calls;
  system_calls.pread = pread_of_growing;
  num_first_reads = 0;
  const std::string message = message_of<FormatError>([&] { read_matrix(growing); });
  system_calls = before;
  CHECK(has(message, "a.bin"));
  CHECK(num_first_reads == 1);
}
