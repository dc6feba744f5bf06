// Matrices in memory with as many blocks as a header can name, and one more.
#include "io/formats/format.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

}  // namespace

TEST_CASE("a matrix of 2^32 blocks is one too many") {
  constexpr std::uint32_t kSide = 1u << 20;
  constexpr std::uint64_t kMost = 0xFFFF'FFFFu;
  CHECK_NOTHROW(io::check_matrix_sizes(kSide, 1, kMost, kMost, "matrix A"));
  const std::string message =
      message_of<FormatError>([] { io::check_matrix_sizes(kSide, 1, kMost + 1, kMost + 1, "matrix A"); });
  CHECK(has(message, "the matrix has 4294967296 blocks, expected at most 4294967295"));
}

TEST_CASE("values are counted in 64 bits") {
  constexpr std::uint64_t kBlocks = 1u << 28;  // times 4 * 4: 2^32
  CHECK_NOTHROW(io::check_matrix_sizes(1u << 17, 4, kBlocks, kBlocks * 16, "matrix A"));
  CHECK_THROWS_AS(io::check_matrix_sizes(1u << 17, 4, kBlocks, 0, "matrix A"), FormatError);
}
