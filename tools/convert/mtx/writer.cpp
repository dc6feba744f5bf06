// Writes matrices as Matrix Market files.
#include "tools/convert/mtx/writer.hpp"

#include <charconv>
#include <string>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "tools/convert/mtx/streamed_output.hpp"

namespace spmm::tools {
namespace {

constexpr std::size_t kMostLineBytes = 64;  // two indices of 10 digits, a number of at most 24 characters

std::uint64_t count_elements(BlockWalk& walk) {
  std::uint64_t count = 0;
  for (walk.rewind(); walk.next();) {
    for (const std::uint32_t value : walk.elements()) count += value != 0 ? 1 : 0;
  }
  return count;
}

}  // namespace

std::uint64_t write_mtx(const std::filesystem::path& path, BlockWalk& walk, double scale) {
  const std::uint64_t num_elements = count_elements(walk);
  std::uint64_t num_written = 0;
  StreamedOutput out(path);
  constexpr std::uint64_t kShortestLine = 6;  // "1 1 1\n"
  out.expect_bytes(num_elements * kShortestLine);
  const std::string head =
      text("%%MatrixMarket matrix coordinate ", scale == 1 ? "integer" : "real", " general\n",
           "% written by spmm-convert\n", walk.shape().rows, " ", walk.shape().columns, " ", num_elements, "\n");
  out.write(std::as_bytes(std::span(head)));
  for (walk.rewind(); walk.next();) {
    for (std::uint32_t r = 0; r < walk.rows_inside(); ++r) {
      for (std::uint32_t c = 0; c < walk.columns_inside(); ++c) {
        const std::uint32_t value = walk.elements()[std::size_t{r} * walk.m() + c];
        if (value == 0) continue;
        ++num_written;
        char* const begin = out.room(kMostLineBytes);
        char* const end = begin + kMostLineBytes;
        char* at = std::to_chars(begin, end, std::uint64_t{walk.at().i} * walk.m() + r + 1).ptr;
        *at++ = ' ';
        at = std::to_chars(at, end, std::uint64_t{walk.at().j} * walk.m() + c + 1).ptr;
        *at++ = ' ';
        at = scale == 1 ? std::to_chars(at, end, value).ptr : std::to_chars(at, end, value * scale).ptr;
        *at++ = '\n';
        out.used(static_cast<std::size_t>(at - begin));
      }
    }
  }
  if (num_written != num_elements) throw_changed_content(walk.matrix().file.name());
  out.publish();
  return num_elements;
}

}  // namespace spmm::tools
