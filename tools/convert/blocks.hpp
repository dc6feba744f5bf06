// Blocks of matrix files: their side, and reading and writing them front to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "io/files/output_file.hpp"
#include "spmm/types.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/convert/elements.hpp"

namespace spmm::tools {

/// Sides that --block auto tries.
inline constexpr std::uint32_t kTriedSides[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32, 64};

/// Number of blocks of side m that hold an element. Shapes: entries sorted by (row, column), each place once.
/// Memory: 4 bytes for each element of the fullest block row.
std::uint64_t count_blocks(const std::vector<MatrixEntry>& entries, std::uint32_t m);

/// The tried side whose file is the shortest, the larger one of two; only sides that divide n, unless n is 0.
/// Memory: as count_blocks().
std::uint32_t choose_block_side(const std::vector<MatrixEntry>& entries, std::uint32_t n);

/// An output file that is written front to back, 4 MB at a time. Errors: OutputError, IoError, Interrupted.
class BufferedOutput {
 public:
  /// Values: begin = offset of the first byte that is added.
  BufferedOutput(const std::filesystem::path& path, std::uint64_t begin) : file_(path, {}), offset_(begin) {}

  [[nodiscard]] io::OutputFile& file() { return file_; }
  /// Adds zeros; the pointer holds until the next call.
  std::byte* add(std::size_t bytes);
  void flush();

 private:
  io::OutputFile file_;
  std::vector<std::byte> buffer_;
  std::uint64_t offset_;
};

/// An input matrix that is written block by block.
class BlockOutput {
 public:
  BlockOutput(const std::filesystem::path& path, std::uint32_t n, std::uint32_t m)
      : out_(path, kHeaderBytes), header_{.n = n, .m = m, .num_blocks = 0} {}

  /// A new block; returns its elements, m * m zeros of 16 bits, until the next call.
  std::byte* add(BlockIndex at);
  /// Gives the complete file its name. Errors: OutOfMemory (more than 2^32 - 1 blocks), OutputError, IoError.
  MatrixHeader publish();

 private:
  BufferedOutput out_;
  MatrixHeader header_;
  std::uint64_t num_blocks_ = 0;
};

/// Writes the blocks that hold an element, sorted by (i, j); returns the header. Shapes: entries sorted by (row,
/// column), each place once, inside n x n. Values: 1 to 65535. Memory: 4 MB, and 8 bytes for each element of the
/// fullest block row. Errors: as BlockOutput; Interrupted.
MatrixHeader write_blocks(const std::filesystem::path& path, const std::vector<MatrixEntry>& entries, std::uint32_t n,
                          std::uint32_t m);

/// Calls take(block index, elements [m, m]) for each block in the order of the file.
/// Memory: 4 MB; that of check_blocks() if blocks are not in order. Errors: FormatError (a block outside the matrix, or
/// twice, which is found at the end), IoError, Interrupted, and those of take().
void for_each_block(const MatrixFile& matrix,
                    const std::function<void(BlockIndex at, const std::vector<std::uint32_t>& elements)>& take);

}  // namespace spmm::tools
