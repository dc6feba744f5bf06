// One conversion, from opening IN to renaming OUT.
#include "tools/convert/convert.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "io/files/paths.hpp"
#include "io/formats/format.hpp"
#include "spmm/error.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/convert/blocks/side.hpp"
#include "tools/convert/blocks/walk.hpp"
#include "tools/convert/blocks/writer.hpp"
#include "tools/convert/mtx/reader.hpp"
#include "tools/convert/mtx/writer.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMaxN = UINT32_MAX;

/// Size and block side of the file to be written; 0: not fixed.
struct Size {
  std::uint32_t n = 0;
  std::uint32_t m = 0;
};

Size fixed_size(const ConvertOptions& options) {
  Size size{.n = options.n.value_or(0), .m = options.block.value_or(0)};
  if (options.like) {
    const MatrixHeader header = open_matrix(*options.like, std::nullopt, ElementType::u16).file.header();
    size.n = header.n;
    if (size.m == 0 && !options.auto_block) size.m = header.m;
    if (size.m != 0 && size.n % size.m != 0) {
      throw UsageError("--block", text(size.m, " does not divide n = ", size.n, " of ", *options.like),
                       text("leave it out: ", *options.like, " has blocks of side ", header.m));
    }
  }
  return size;
}

/// Errors: UsageError if the matrix is larger than what was asked for.
void check_fits(const MatrixShape& shape, const Size& size, const ConvertOptions& options) {
  if (size.n == 0 || std::max(shape.rows, shape.columns) <= size.n) return;
  throw UsageError(options.like ? "--like" : "--n",
                   text("n = ", size.n, " is less than the ", shape.rows, " x ", shape.columns, " of ", options.in),
                   options.like ? "convert the larger matrix first, or give both the same --n"
                                : text("give at least ", std::max(shape.rows, shape.columns)));
}

std::uint32_t padded_side(const MatrixShape& shape, std::uint32_t m, const std::string& name) {
  const std::uint64_t n = (std::max(shape.rows, shape.columns) + m - 1) / m * m;
  if (n <= kMaxN) return static_cast<std::uint32_t>(n);
  throw FormatError(name, text("padded to a multiple of the block side ", m, " its side is ", n, ", at most ", kMaxN),
                    "give a --block that divides it");
}

std::string to_bin(const ConvertOptions& options) {
  const auto reader = open_mtx(options.in);
  const MatrixShape shape = reader->shape();
  Size size = fixed_size(options);
  check_fits(shape, size, options);
  EntrySink sink(options.transposed);
  reader->read(sink);
  std::vector<MatrixEntry>& entries = sink.entries();
  sort_entries(entries, options.num_threads);
  ChangedElements changed;
  const BadElement bad = make_elements(entries, options.rule, changed);
  if (bad.fault != ElementFault::none) {
    throw_bad_element(*reader, options.in, bad, options.rule, options.transposed);
  }
  if (size.m == 0) size.m = choose_block_side(entries, size.n, options.num_threads);
  if (size.n == 0) size.n = padded_side(shape, size.m, options.in);
  const MatrixHeader header = write_blocks(options.out, entries, size.n, size.m);
  const std::uint64_t places = header.num_blocks * std::uint64_t{header.m} * header.m;
  return text(options.out, ": ", shape.rows, " x ", shape.columns, options.transposed ? " transposed" : "", ", ",
              entries.size(), " elements -> n ", header.n, ", m ", header.m, ", ", header.num_blocks, " blocks (",
              places == 0 ? 100 : entries.size() * 100 / places, " % full), ",
              human_bytes(io::file_bytes_of(ElementType::u16, header)), changed.summary());
}

/// A result becomes an operand.
std::string bin_to_bin(const ConvertOptions& options) {
  const MatrixFile matrix = open_matrix(options.in, options.type, ElementType::u32);
  const std::uint64_t n = matrix.file.header().n;
  BlockWalk walk(matrix, {.shape = {.rows = n, .columns = n}, .transposed = options.transposed});
  ChangedElements changed;
  const MatrixHeader header = rewrite_blocks(options.out, walk, options.rule, changed);
  return text(options.out, ":", options.transposed ? " transposed," : "", " n ", header.n, ", m ", header.m, ", ",
              header.num_blocks, " blocks with elements of 16 bits, ",
              human_bytes(io::file_bytes_of(ElementType::u16, header)), changed.summary());
}

std::string from_bin(const ConvertOptions& options) {
  const MatrixFile matrix = open_matrix(options.in, options.type, ElementType::u32);
  const std::uint64_t n = matrix.file.header().n;
  const MatrixShape shape = options.shape.value_or(MatrixShape{.rows = n, .columns = n});
  if (shape.rows > n || shape.columns > n) {
    throw UsageError("--shape", text(shape.rows, "x", shape.columns, " is larger than n = ", n, " of ", options.in),
                     text("give at most ", n, "x", n));
  }
  BlockWalk walk(matrix, {.shape = shape, .transposed = options.transposed});
  return text(options.out, ": ", shape.rows, " x ", shape.columns, options.transposed ? " transposed" : "", ", ",
              write_mtx(options.out, walk, options.scale), " elements");
}

}  // namespace

std::string convert_file(const ConvertOptions& options) {
  check_output_is_no_input(options.in, options.out);
  if (options.like) check_output_is_no_input(*options.like, options.out);
  if (options.to != FileFormat::bin) return from_bin(options);
  return options.from == FileFormat::bin ? bin_to_bin(options) : to_bin(options);
}

}  // namespace spmm::tools
