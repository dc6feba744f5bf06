// One conversion, from opening IN to renaming OUT.
#include "tools/convert/convert.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/memory/machine_memory.hpp"
#include "base/text.hpp"
#include "io/files/paths.hpp"
#include "io/formats/format.hpp"
#include "spmm/error.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/convert/blocks.hpp"
#include "tools/convert/elements.hpp"
#include "tools/convert/mtx.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMaxN = UINT32_MAX;

/// Size and block side of the file to be written; 0: not fixed.
struct Size {
  std::uint32_t n = 0;
  std::uint32_t m = 0;
};

/// Errors: UsageError if the matrix is larger than what was asked for, or the block side does not divide n.
Size fixed_size(const MatrixShape& shape, const ConvertOptions& options) {
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
  const std::uint64_t longest = std::max(shape.rows, shape.columns);
  if (size.n == 0 || longest <= size.n) return size;
  throw UsageError(
      options.like ? "--like" : "--n",
      text("n = ", size.n, " is less than the ", shape.rows, " x ", shape.columns, " of ", options.in),
      options.like ? "convert the larger matrix first, or give both the same --n" : text("give at least ", longest));
}

std::uint32_t padded_side(const MatrixShape& shape, std::uint32_t m, const std::string& name) {
  const std::uint64_t n = (std::max(shape.rows, shape.columns) + m - 1) / m * m;
  if (n <= kMaxN) return static_cast<std::uint32_t>(n);
  throw FormatError(name, text("padded to a multiple of the block side ", m, " its side is ", n, ", at most ", kMaxN),
                    "give a --block that divides it");
}

/// Host memory of a conversion from .mtx: buffers, and for each element 16 bytes as a MatrixEntry and 8 while a block
/// row is written.
constexpr std::uint64_t kBufferBytes = 20'000'000;
constexpr std::uint64_t kElementBytes = sizeof(MatrixEntry) + 8;

/// Errors: OutOfMemory, as early as it is known; those of MtxFile::read().
std::vector<MatrixEntry> read_entries(const MtxFile& file, bool transposed) {
  const std::uint64_t free_bytes = available_memory_bytes();
  const std::uint64_t most = (free_bytes - std::min(free_bytes, kBufferBytes)) / kElementBytes;
  const auto refuse = [&](std::uint64_t num_elements) {
    throw OutOfMemory(file.name(),
                      text(num_elements, " elements need ", human_bytes(kBufferBytes + num_elements * kElementBytes),
                           " of memory (", kElementBytes, " bytes each), free are ", human_bytes(free_bytes)),
                      "convert on a machine with more memory");
  };
  if (file.is_coordinate() && file.max_elements() > most) refuse(file.max_elements());
  std::vector<MatrixEntry> entries;
  entries.reserve(std::min(file.max_elements(), most));
  file.read([&](std::uint32_t row, std::uint32_t column, double value, std::uint64_t) {
    if (value == 0) return;  // stored zeros change nothing; a NaN is kept, and refused later
    if (entries.size() == most) refuse(most + 1);
    if (transposed) std::swap(row, column);
    entries.push_back({.column = column, .row = row, .value = value});
  });
  return entries;
}

/// Reads the file again to say in which lines the element is. Errors: always FormatError.
[[noreturn]] void throw_with_lines(const MtxFile& file, BadElement bad, const ConvertOptions& options) {
  constexpr std::uint64_t kMaxLines = 3;
  if (options.transposed) std::swap(bad.row, bad.column);
  std::string where = file.name();
  std::uint64_t found = 0;
  file.read([&](std::uint32_t row, std::uint32_t column, double value, std::uint64_t line) {
    if (row != bad.row || column != bad.column || value == 0 || ++found > kMaxLines) return;
    where += text(found == 1 ? ", line " : " and line ", line);
  });
  throw_bad_element(where + (found > kMaxLines ? " and more" : ""), bad, 1, options.rule);
}

std::string mtx_to_bin(const ConvertOptions& options) {
  const MtxFile file(options.in);
  const MatrixShape& shape = file.shape();
  Size size = fixed_size(shape, options);
  std::vector<MatrixEntry> entries = read_entries(file, options.transposed);
  sort_entries(entries);
  ChangedElements changed;
  const BadElement bad = make_elements(entries, options.rule, changed);
  if (bad.fault != ElementFault::none) throw_with_lines(file, bad, options);
  if (size.m == 0) size.m = choose_block_side(entries, size.n);
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
  const std::uint32_t m = matrix.file.header().m;
  BlockOutput out(options.out, matrix.file.header().n, m);
  ChangedElements changed;
  std::vector<std::uint16_t> values(std::size_t{m} * m);
  for_each_block(matrix, options.transposed, [&](BlockIndex at, const std::vector<std::uint32_t>& elements) {
    for (std::size_t e = 0; e < values.size(); ++e) {
      const RuledElement element = apply_rule(elements[e], options.rule, changed);
      if (element.fault != ElementFault::none) {
        auto row = static_cast<std::uint32_t>(at.i * m + e / m), column = static_cast<std::uint32_t>(at.j * m + e % m);
        if (options.transposed) std::swap(row, column);
        const auto sum = static_cast<double>(elements[e]);
        throw_bad_element(options.in,
                          {.row = row, .column = column, .sum = sum, .num_values = 1, .fault = element.fault}, 0,
                          options.rule);
      }
      values[e] = element.value;
    }
    const bool is_zero = std::all_of(values.begin(), values.end(), [](std::uint16_t value) { return value == 0; });
    if (!is_zero) std::memcpy(out.add(at), values.data(), values.size() * sizeof(std::uint16_t));
  });
  const MatrixHeader header = out.publish();
  return text(options.out, ":", options.transposed ? " transposed," : "", " n ", header.n, ", m ", header.m, ", ",
              header.num_blocks, " blocks with elements of 16 bits, ",
              human_bytes(io::file_bytes_of(ElementType::u16, header)), changed.summary());
}

std::string bin_to_mtx(const ConvertOptions& options) {
  const MatrixFile matrix = open_matrix(options.in, options.type, ElementType::u32);
  const std::uint64_t n = matrix.file.header().n;
  const std::uint64_t m = matrix.file.header().m;
  const MatrixShape shape = options.shape.value_or(MatrixShape{.rows = n, .columns = n});
  if (shape.rows > n || shape.columns > n) {
    throw UsageError("--shape", text(shape.rows, "x", shape.columns, " is larger than n = ", n, " of ", options.in),
                     text("give at most ", n, "x", n));
  }
  MtxOutput out(options.out, shape, options.rule.scale);
  for_each_block(matrix, options.transposed, [&](BlockIndex at, const std::vector<std::uint32_t>& elements) {
    for (std::size_t e = 0; e < elements.size(); ++e) {
      if (elements[e] == 0) continue;
      const std::uint64_t row = at.i * m + e / m;
      const std::uint64_t column = at.j * m + e % m;
      if (row < shape.rows && column < shape.columns) {
        out.add(row, column, elements[e]);
        continue;
      }
      throw ShapeError(options.in,
                       text("the element at row ", row, ", column ", column, " (counted from 0",
                            options.transposed ? ", transposed" : "", ") is ", elements[e], ", outside the shape ",
                            shape.rows, "x", shape.columns),
                       "give a larger --shape");
    }
  });
  return text(options.out, ": ", shape.rows, " x ", shape.columns, options.transposed ? " transposed" : "", ", ",
              out.publish(), " elements");
}

}  // namespace

std::string convert_file(const ConvertOptions& options) {
  check_output_is_no_input(options.in, options.out);
  if (options.like) check_output_is_no_input(*options.like, options.out);
  if (options.to_mtx) return bin_to_mtx(options);
  return options.from_mtx ? mtx_to_bin(options) : bin_to_bin(options);
}

}  // namespace spmm::tools
