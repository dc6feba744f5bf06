// Conversions of spmm-convert: the rule for elements, block sides, writing of blocks and of Matrix Market files.
#include "tools/convert/convert.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/memory/machine_memory.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "io/files/output_file.hpp"
#include "io/files/paths.hpp"
#include "io/formats/format.hpp"
#include "spmm/error.hpp"
#include "tools/common/matrix_file.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMaxBlocks = UINT32_MAX;

// ---- elements

constexpr double kLargest = 65535;
constexpr double kExactLimit = 0x1p53;  ///< from here on a double may be another whole number, rounded

/// The shortest decimal number that is this double.
std::string shown(double value) {
  std::array<char, 64> out{};
  const auto [end, error] = std::to_chars(out.data(), out.data() + out.size(), value);
  return error == std::errc{} ? std::string(out.data(), end) : text(value);
}

/// An element, or what is wrong with the number.
struct RuledElement {
  std::uint16_t value = 0;
  const char* problem = nullptr;  ///< nullptr: nothing
  const char* hint = "";
};

RuledElement apply_rule(double sum, const ElementRule& rule, ChangedElements& changed) {
  const double scaled = sum * rule.scale;
  if (std::isnan(scaled)) return {.problem = "is not a number", .hint = "replace it in the matrix"};
  const double value = rule.round ? std::nearbyint(scaled) : scaled;
  if (value < 0 || value > kLargest) {
    if (!rule.saturate) {
      return {.problem = value < 0 ? "is negative" : "is above 65535",
              .hint = "give --on-overflow saturate, which takes the nearest of 0 and 65535, or --scale"};
    }
    ++(value < 0 ? changed.raised : changed.cut);
    return {.value = static_cast<std::uint16_t>(std::clamp(value, 0.0, kLargest))};
  }
  const auto whole = static_cast<std::uint16_t>(value);
  if (whole != value) {
    return {.problem = "is not a whole number",
            .hint = "give --round, or --scale with a factor that makes whole numbers"};
  }
  if (value != scaled) ++changed.rounded;
  return {.value = whole};
}

/// Errors: always FormatError. Values: which = "the element at row 3, column 4 (counted from 1)".
[[noreturn]] void throw_bad_element(const std::string& file, const std::string& which, double sum,
                                    const ElementRule& rule, const RuledElement& bad) {
  throw FormatError(file,
                    text(which, " is ", shown(sum), rule.scale == 1 ? "" : text(", times ", shown(rule.scale)),
                         ", which ", bad.problem, "; expected a whole number from 0 to 65535"),
                    bad.hint);
}

// ---- output files

/// A file that is written front to back, 4 MB at a time. Errors: OutputError, IoError, Interrupted.
class BufferedOutput {
 public:
  /// Values: begin = offset of the first byte that is added.
  BufferedOutput(const std::string& path, std::uint64_t begin) : file_(path, {}), offset_(begin) {}

  [[nodiscard]] io::OutputFile& file() { return file_; }

  /// Adds zeros; the pointer holds until the next call.
  std::byte* add(std::size_t bytes) {
    constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
    if (buffer_.capacity() == 0) buffer_.reserve(kBufferBytes);
    if (buffer_.size() + bytes > buffer_.capacity()) flush();
    buffer_.resize(buffer_.size() + bytes);
    return buffer_.data() + buffer_.size() - bytes;
  }

  void flush() {
    cli::check_cancelled("spmm-convert");
    file_.write_at(offset_, buffer_);
    offset_ += buffer_.size();
    buffer_.clear();
  }

 private:
  io::OutputFile file_;
  std::vector<std::byte> buffer_;
  std::uint64_t offset_;
};

/// An input matrix that is written block by block.
class BlockOutput {
 public:
  BlockOutput(const std::string& path, std::uint32_t n, std::uint32_t m)
      : out_(path, kHeaderBytes), header_{.n = n, .m = m, .num_blocks = 0} {}

  /// A new block; returns its elements, m * m zeros of 16 bits, until the next call.
  std::byte* add(BlockIndex at) {
    std::byte* const record = out_.add(input_record_bytes(header_.m));
    write_index(record, at);
    ++num_blocks_;
    return record + kIndexBytes;
  }

  /// Gives the complete file its name. Errors: OutOfMemory (more than 2^32 - 1 blocks), OutputError, IoError.
  MatrixHeader publish() {
    if (num_blocks_ > kMaxBlocks) {
      throw OutOfMemory(
          out_.file().name(),
          text("the matrix has ", num_blocks_, " blocks of side ", header_.m, ", a file at most ", kMaxBlocks),
          "store it with larger blocks");
    }
    header_.num_blocks = static_cast<std::uint32_t>(num_blocks_);
    out_.flush();
    out_.file().finish(header_);
    out_.file().publish();
    return header_;
  }

 private:
  BufferedOutput out_;
  MatrixHeader header_;
  std::uint64_t num_blocks_ = 0;
};

// ---- blocks of elements

/// Calls take(block row, its elements) for each block row. Shapes: entries sorted by row.
template <class Take>
void for_each_block_row(std::span<const MatrixEntry> entries, std::uint32_t m, const Take& take) {
  while (!entries.empty()) {
    const std::uint32_t row = entries[0].row / m;
    std::size_t count = 1;
    while (count < entries.size() && entries[count].row / m == row) ++count;
    take(row, entries.first(count));
    entries = entries.subspan(count);
  }
}

/// Number of blocks of side m that hold an element. Memory: 4 bytes for each element of the fullest block row.
std::uint64_t count_blocks(std::span<const MatrixEntry> entries, std::uint32_t m) {
  if (m == 1) return entries.size();
  std::uint64_t blocks = 0;
  std::vector<std::uint32_t> columns;
  for_each_block_row(entries, m, [&](std::uint32_t, std::span<const MatrixEntry> row) {
    columns.clear();
    for (const MatrixEntry& entry : row) columns.push_back(entry.column / m);
    std::sort(columns.begin(), columns.end());
    blocks += static_cast<std::uint64_t>(std::unique(columns.begin(), columns.end()) - columns.begin());
  });
  return blocks;
}

/// The block side whose file is the shortest, the larger one of two; only sides that divide n, unless n is 0.
std::uint32_t choose_block_side(std::span<const MatrixEntry> entries, std::uint32_t n) {
  std::uint32_t best = 1;
  std::uint64_t least_bytes = UINT64_MAX;
  for (const std::uint32_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32, 64}) {
    cli::check_cancelled("spmm-convert");
    if (n % m != 0) continue;
    const std::uint64_t blocks = count_blocks(entries, m);
    const std::uint64_t bytes = blocks * input_record_bytes(m);
    if (blocks > kMaxBlocks || bytes > least_bytes) continue;
    least_bytes = bytes;
    best = m;
  }
  return best;
}

/// Writes the blocks that hold an element, sorted by (i, j). Shapes: entries sorted by (row, column), each place once,
/// inside n x n. Values: 1 to 65535. Memory: 4 MB, and 8 bytes for each element of the fullest block row.
MatrixHeader write_blocks(const std::string& path, std::span<const MatrixEntry> entries, std::uint32_t n,
                          std::uint32_t m) {
  BlockOutput out(path, n, m);
  std::vector<std::uint64_t> packed;  // block column, place in the block, value: sorted, it groups the blocks
  for_each_block_row(entries, m, [&](std::uint32_t block_row, std::span<const MatrixEntry> row) {
    packed.clear();
    for (const MatrixEntry& entry : row) {
      const std::uint64_t place = std::uint64_t{entry.row % m} * m + entry.column % m;  // below 64 * 64
      packed.push_back(std::uint64_t{entry.column / m} << 32 | place << 16 | static_cast<std::uint16_t>(entry.value));
    }
    std::sort(packed.begin(), packed.end());
    std::byte* elements = nullptr;
    std::uint64_t before = UINT64_MAX;
    for (const std::uint64_t element : packed) {
      const std::uint64_t column = element >> 32;
      if (column != before) elements = out.add({.i = block_row, .j = static_cast<std::uint32_t>(column)});
      before = column;
      const auto value = static_cast<std::uint16_t>(element);
      std::memcpy(elements + (element >> 16 & 0xFFFF) * sizeof value, &value, sizeof value);
    }
  });
  return out.publish();
}

/// Calls take(block index, elements [m, m]) for each block in the order of the file.
/// Memory: 4 MB; that of check_blocks() if blocks are not in order. Errors: FormatError (a block outside the matrix, or
/// twice, which is found at the end), IoError, Interrupted, and those of take().
template <class Take>
void for_each_block(const MatrixFile& matrix, const Take& take) {
  const io::InputFile& file = matrix.file;
  std::vector<std::uint32_t> elements(std::size_t{file.header().m} * file.header().m);
  std::optional<BlockIndex> before;
  bool ascends = true;
  for_each_record(file, "spmm-convert", [&](std::uint64_t, BlockIndex at, const std::byte* record) {
    ascends = ascends && (!before || *before < at);
    before = at;
    for (std::size_t e = 0; e < elements.size(); ++e) elements[e] = element_at(record, matrix.type, e);
    take(at, elements);
  });
  if (!ascends) check_blocks(file, "spmm-convert");
  file.check_unchanged();
}

// ---- conversions

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

/// Errors: OutOfMemory, as early as it is known; those of MtxFile::read().
std::vector<MatrixEntry> read_entries(MtxFile& file, const std::string& name) {
  constexpr std::uint64_t kBufferBytes = 20'000'000;
  constexpr std::uint64_t kElementBytes = sizeof(MatrixEntry) + 8;  // 8 while its block row is written
  const std::uint64_t free_bytes = available_memory_bytes();
  const std::uint64_t needed = kBufferBytes + file.max_elements() * kElementBytes;
  if (needed > free_bytes) {
    throw OutOfMemory(name,
                      text(file.max_elements(), " elements need ", human_bytes(needed), " of memory (", kElementBytes,
                           " bytes each), free are ", human_bytes(free_bytes)),
                      "convert on a machine with more memory");
  }
  std::vector<MatrixEntry> entries;
  entries.reserve(file.max_elements());
  file.read([&](std::uint32_t row, std::uint32_t column, double value) {
    if (value == 0) return;  // stored zeros change nothing; a NaN is kept, and refused later
    entries.push_back({.column = column, .row = row, .value = value});
  });
  return entries;
}

std::string mtx_to_bin(const ConvertOptions& options) {
  MtxFile file(options.in);
  const MatrixShape& shape = file.shape();
  Size size = fixed_size(shape, options);
  std::vector<MatrixEntry> entries = read_entries(file, options.in);
  ChangedElements changed;
  make_elements(entries, options.rule, changed, options.in);
  if (size.m == 0) size.m = choose_block_side(entries, size.n);
  if (size.n == 0) size.n = padded_side(shape, size.m, options.in);
  const MatrixHeader header = write_blocks(options.out, entries, size.n, size.m);
  const std::uint64_t places = header.num_blocks * std::uint64_t{header.m} * header.m;
  return text(options.out, ": ", shape.rows, " x ", shape.columns, ", ", entries.size(), " elements -> n ", header.n,
              ", m ", header.m, ", ", header.num_blocks, " blocks (", places == 0 ? 100 : entries.size() * 100 / places,
              " % full), ", human_bytes(io::file_bytes_of(ElementType::u16, header)), changed.summary());
}

/// A result becomes an operand.
std::string bin_to_bin(const ConvertOptions& options) {
  const MatrixFile matrix = open_matrix(options.in, options.type, ElementType::u32);
  const std::uint64_t m = matrix.file.header().m;
  BlockOutput out(options.out, matrix.file.header().n, matrix.file.header().m);
  ChangedElements changed;
  std::vector<std::uint16_t> values(m * m);
  for_each_block(matrix, [&](BlockIndex at, const std::vector<std::uint32_t>& elements) {
    for (std::size_t e = 0; e < values.size(); ++e) {
      const RuledElement element = apply_rule(elements[e], options.rule, changed);
      if (element.problem != nullptr) {
        throw_bad_element(
            options.in,
            text("the element at row ", at.i * m + e / m, ", column ", at.j * m + e % m, " (counted from 0)"),
            elements[e], options.rule, element);
      }
      values[e] = element.value;
    }
    const bool is_zero = std::all_of(values.begin(), values.end(), [](std::uint16_t value) { return value == 0; });
    if (!is_zero) std::memcpy(out.add(at), values.data(), values.size() * sizeof(std::uint16_t));
  });
  const MatrixHeader header = out.publish();
  return text(options.out, ": n ", header.n, ", m ", header.m, ", ", header.num_blocks,
              " blocks with elements of 16 bits, ", human_bytes(io::file_bytes_of(ElementType::u16, header)),
              changed.summary());
}

/// Writes coordinates, general; integer, or real if there is a factor. The number of elements is written at the end.
std::string bin_to_mtx(const ConvertOptions& options) {
  const MatrixFile matrix = open_matrix(options.in, options.type, ElementType::u32);
  const std::uint64_t n = matrix.file.header().n;
  const std::uint64_t m = matrix.file.header().m;
  const MatrixShape shape = options.shape.value_or(MatrixShape{.rows = n, .columns = n});
  if (shape.rows > n || shape.columns > n) {
    throw UsageError("--shape", text(shape.rows, "x", shape.columns, " is larger than n = ", n, " of ", options.in),
                     text("give at most ", n, "x", n));
  }
  const double scale = options.rule.scale;
  BufferedOutput out(options.out, 0);
  const auto add = [&](std::string_view words) { std::memcpy(out.add(words.size()), words.data(), words.size()); };
  const std::string head = text("%%MatrixMarket matrix coordinate ", scale == 1 ? "integer" : "real", " general\n",
                                "% written by spmm-convert\n", shape.rows, " ", shape.columns, " ");
  constexpr std::size_t kCountCharacters = 20;
  add(head + std::string(kCountCharacters, ' ') + "\n");
  std::uint64_t num_elements = 0;
  for_each_block(matrix, [&](BlockIndex at, const std::vector<std::uint32_t>& elements) {
    for (std::size_t e = 0; e < elements.size(); ++e) {
      if (elements[e] == 0) continue;
      const std::uint64_t row = at.i * m + e / m;
      const std::uint64_t column = at.j * m + e % m;
      if (row >= shape.rows || column >= shape.columns) {
        throw ShapeError(options.in,
                         text("the element at row ", row, ", column ", column, " (counted from 0) is ", elements[e],
                              ", outside the shape ", shape.rows, "x", shape.columns),
                         "give a larger --shape");
      }
      constexpr std::size_t kMostCharacters = 24;  // of a number
      std::array<char, 3 * (kMostCharacters + 1)> line;
      char* end = line.data();
      const auto put = [&](auto number, char after) {
        end = std::to_chars(end, end + kMostCharacters, number).ptr;
        *end++ = after;
      };
      put(row + 1, ' ');
      put(column + 1, ' ');
      scale == 1 ? put(elements[e], '\n') : put(elements[e] * scale, '\n');
      add({line.data(), static_cast<std::size_t>(end - line.data())});
      ++num_elements;
    }
  });
  out.flush();
  const std::string count = std::to_string(num_elements);
  out.file().write_at(head.size(), std::as_bytes(std::span(count)));
  out.file().finish();
  out.file().publish();
  return text(options.out, ": ", shape.rows, " x ", shape.columns, ", ", num_elements, " elements");
}

}  // namespace

std::string ChangedElements::summary() const {
  std::string line;
  for (const auto& [num, words] : {std::pair{rounded, " rounded"}, {raised, " raised to 0"}, {cut, " cut to 65535"}}) {
    if (num > 0) line += text(line.empty() ? "; " : ", ", num, words);
  }
  return line;
}

void make_elements(std::vector<MatrixEntry>& entries, const ElementRule& rule, ChangedElements& changed,
                   const std::string& file) {
  const auto before = [](const MatrixEntry& x, const MatrixEntry& y) { return x.key() < y.key(); };
  if (!std::is_sorted(entries.begin(), entries.end(), before)) std::sort(entries.begin(), entries.end(), before);
  std::size_t kept = 0;
  for (std::size_t begin = 0, end = 0; begin < entries.size(); begin = end) {
    MatrixEntry element = entries[begin];
    double size = std::abs(element.value);
    bool is_whole = element.value == std::trunc(element.value);
    for (end = begin + 1; end < entries.size() && entries[end].key() == element.key(); ++end) {
      const double value = entries[end].value;
      element.value += value;
      size += std::abs(value);
      is_whole = is_whole && value == std::trunc(value);
    }
    RuledElement ruled = apply_rule(element.value, rule, changed);
    if (end - begin > 1 && !std::isnan(size) && (!is_whole || size >= kExactLimit)) {
      ruled.problem = "has several parts that are no whole numbers, or 2^53 or more together";
      ruled.hint = "store each element once";
    }
    if (ruled.problem != nullptr) {
      throw_bad_element(
          file,
          text(end - begin > 1 ? text("the sum of ", end - begin, " elements") : "the element", " at row ",
               element.row + std::uint64_t{1}, ", column ", element.column + std::uint64_t{1}, " (counted from 1)"),
          element.value, rule, ruled);
    }
    element.value = static_cast<double>(ruled.value);
    if (ruled.value != 0) entries[kept++] = element;
  }
  entries.resize(kept);
}

std::string convert_file(const ConvertOptions& options) {
  check_output_is_no_input(options.in, options.out);
  if (options.like) check_output_is_no_input(*options.like, options.out);
  if (options.to_mtx) return bin_to_mtx(options);
  return options.from_mtx ? mtx_to_bin(options) : bin_to_bin(options);
}

}  // namespace spmm::tools
