// The command line of spmm-convert, and one conversion, from opening IN to renaming OUT.
#include "tools/convert/convert.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include "base/memory/machine_memory.hpp"
#include "base/text.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "io/files/paths.hpp"
#include "io/formats/foreign_format.hpp"
#include "io/formats/format.hpp"
#include "spmm/error.hpp"
#include "spmm/types.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/convert/blocks.hpp"
#include "tools/convert/elements.hpp"
#include "tools/convert/mtx.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMaxN = UINT32_MAX;

// ---- the command line

bool ends_in_mtx(const std::string& path) {
  return std::filesystem::path(path).extension() == ".mtx";
}

/// Whether a file is a Matrix Market file: its header does not fit its length, and its first bytes or its ending say
/// so. Errors: InputError, FormatError (it is neither).
bool is_mtx(const std::string& path) {
  try {
    open_matrix(path, std::nullopt, ElementType::u32);
    return false;
  } catch (const FormatError&) {
    std::string first_bytes(kHeaderBytes, ' ');
    std::ifstream(path, std::ios::binary).read(first_bytes.data(), static_cast<std::streamsize>(first_bytes.size()));
    const io::ForeignFormat found = io::find_foreign_format(std::as_bytes(std::span(first_bytes)));
    if (found == io::ForeignFormat::matrix_market) return true;
    const bool may_be = found == io::ForeignFormat::none || found == io::ForeignFormat::text;
    if (may_be && ends_in_mtx(path)) return true;  // its reader says what is wrong
    throw;
  }
}

/// A number, or a fraction of two. Errors: UsageError.
double parse_scale(const cli::OptionText& given) {
  const auto number = [](std::string_view word) {
    double value = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc{} && stop == word.data() + word.size() ? value : 0;
  };
  const std::string_view word = given.value;
  const std::size_t slash = word.find('/');
  const double divisor = slash == word.npos ? 1 : number(word.substr(slash + 1));
  const double value = divisor == 0 ? 0 : number(word.substr(0, slash)) / divisor;
  if (std::isfinite(divisor) && std::isfinite(value) && value != 0) return value;
  throw UsageError(given.where, "\"" + given.value + "\" is not a factor",
                   "give a number such as 256, 0.5 or 1/65536, not 0");
}

MatrixShape parse_shape(const cli::OptionText& given) {
  const std::size_t cross = given.value.find('x');
  if (cross == std::string::npos) {
    throw UsageError(given.where, "\"" + given.value + "\" is not a shape", "write rows and columns, as in 3000x200");
  }
  return {.rows = cli::parse_count(given.value.substr(0, cross), given.where, 1, kMaxN),
          .columns = cli::parse_count(given.value.substr(cross + 1), given.where, 1, kMaxN)};
}

/// Errors: UsageError if an option is given that has no effect between these formats.
void refuse_useless_options(const cli::ParsedOptions& parsed, bool from_mtx, bool to_mtx) {
  const auto refuse = [&](bool is_useless, const std::vector<std::string>& options, const char* formats) {
    for (const std::string& option : options) {
      if (!is_useless || parsed.count(option) == 0) continue;
      throw UsageError("--" + option, text("has no effect ", formats), "leave it out; see spmm-convert --help");
    }
  };
  refuse(!from_mtx, {"block", "n", "like"}, "from .bin");
  refuse(from_mtx, {"type"}, "from .mtx");
  refuse(!to_mtx, {"shape"}, "to .bin");
  refuse(to_mtx, {"round", "on-overflow"}, "to .mtx");
}

/// Errors: UsageError.
void parse_size(const cli::ParsedOptions& parsed, ConvertOptions& options) {
  if (const auto block = cli::option_text(parsed, "block")) {
    options.auto_block = block->value == "auto";
    if (!options.auto_block) {
      options.block = static_cast<std::uint32_t>(cli::parse_count(block->value, block->where, 1, kMaxBlockDim));
    }
  }
  if (const auto n = cli::option_count(parsed, "n", 1, kMaxN)) options.n = static_cast<std::uint32_t>(*n);
  if (const auto like = cli::option_text(parsed, "like")) options.like = like->value;
  if (options.n && options.like)
    throw UsageError(
        "--n", "and --like both say the size",
        "give one of them; two rectangles fit if --n of the first is at least the rows and columns of both, "
        "and the second has --like FIRST.bin");
  if (options.block && options.n && *options.n % *options.block != 0) {
    throw UsageError("--n", text(*options.n, " is not a multiple of --block ", *options.block),
                     text("give ", (*options.n / *options.block + 1) * std::uint64_t{*options.block}));
  }
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

/// Host memory of a conversion from .mtx: buffers, and for each element 16 bytes as a MatrixEntry and 8 while a block
/// row is written.
constexpr std::uint64_t kBufferBytes = 20'000'000;
constexpr std::uint64_t kElementBytes = sizeof(MatrixEntry) + 8;

/// Errors: OutOfMemory, as early as it is known; those of MtxFile::read().
std::vector<MatrixEntry> read_entries(const MtxFile& file) {
  const std::uint64_t free_bytes = available_memory_bytes();
  const std::uint64_t needed = kBufferBytes + file.max_elements() * kElementBytes;
  if (needed > free_bytes) {
    throw OutOfMemory(file.name(),
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
  const MtxFile file(options.in);
  const MatrixShape& shape = file.shape();
  Size size = fixed_size(shape, options);
  std::vector<MatrixEntry> entries = read_entries(file);
  ChangedElements changed;
  make_elements(entries, options.rule, changed, file.name());
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
  const std::uint32_t m = matrix.file.header().m;
  BlockOutput out(options.out, matrix.file.header().n, m);
  ChangedElements changed;
  std::vector<std::uint16_t> values(std::size_t{m} * m);
  for_each_block(matrix, [&](BlockIndex at, const std::vector<std::uint32_t>& elements) {
    for (std::size_t e = 0; e < values.size(); ++e) {
      const RuledElement element = apply_rule(elements[e], options.rule, changed);
      if (element.problem != nullptr) {
        throw_bad_element(options.in,
                          text("the element at row ", at.i * std::uint64_t{m} + e / m, ", column ",
                               at.j * std::uint64_t{m} + e % m, " (counted from 0)"),
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
  for_each_block(matrix, [&](BlockIndex at, const std::vector<std::uint32_t>& elements) {
    for (std::size_t e = 0; e < elements.size(); ++e) {
      if (elements[e] == 0) continue;
      const std::uint64_t row = at.i * m + e / m;
      const std::uint64_t column = at.j * m + e % m;
      if (row < shape.rows && column < shape.columns) {
        out.add(row, column, elements[e]);
        continue;
      }
      throw ShapeError(options.in,
                       text("the element at row ", row, ", column ", column, " (counted from 0) is ", elements[e],
                            ", outside the shape ", shape.rows, "x", shape.columns),
                       "give a larger --shape");
    }
  });
  return text(options.out, ": ", shape.rows, " x ", shape.columns, ", ", out.publish(), " elements");
}

}  // namespace

cli::OptionTable make_convert_options() {
  using cli::value;
  cli::OptionTable options("spmm-convert", "Converts matrices of other programs to block-sparse files, and back.\n");
  options.usage("[options] IN OUT", "spmm convert");
  options.add_options("hidden")("in", "", value())("out", "", value());
  options.add_options()                                                                      //
      ("scale", "multiply all elements by this number or fraction (1/65536)", value(), "X")  //
      ("q,quiet", "print nothing on success");
  cli::add_common_options(options);
  options.add_options("To .bin")                                                                                    //
      ("block", "side of the blocks, 1 to 64, or auto (default: as IN or --like has it, else auto)", value(), "M")  //
      ("n", "pad with zeros to N rows and columns", value(), "N")                                                   //
      ("like", "pad to the size, and use the block side, of this .bin", value(), "FILE")                            //
      ("round", "round fractions to the nearest whole number (of two, to the even one)")                            //
      ("on-overflow", "elements below 0 or above 65535: error, or saturate to these", value(), "WHAT");
  options.add_options("From .bin")                                             //
      ("type", "elements of IN: auto, u16 or u32 (results)", value(), "TYPE")  //
      ("shape", "rows and columns to cut out; what lies outside must be zero", value(), "RxC");
  options.parse_positional({"in", "out"});
  return options;
}

ConvertOptions parse_convert_options(const cli::ParsedOptions& parsed) {
  ConvertOptions options;
  options.in = cli::required_positional(parsed, "in", "input file");
  options.out = cli::required_positional(parsed, "out", "output file", cli::Dash::refused_output);
  options.from_mtx = is_mtx(options.in);
  options.to_mtx = ends_in_mtx(options.out);
  if (!options.to_mtx) io::reject_foreign_ending(options.out);
  if (options.from_mtx && options.to_mtx) {
    throw UsageError("command line", "from .mtx to .mtx: one of the two must be a block-sparse file",
                     "convert to .bin and from there");
  }
  refuse_useless_options(parsed, options.from_mtx, options.to_mtx);
  parse_size(parsed, options);
  options.quiet = cli::option_flag(parsed, "quiet");
  if (const auto scale = cli::option_text(parsed, "scale")) options.rule.scale = parse_scale(*scale);
  options.rule.round = cli::option_flag(parsed, "round");
  options.rule.saturate = cli::option_choice(parsed, "on-overflow", {"error", "saturate"}) == 1;
  options.type = type_option(parsed);
  if (const auto shape = cli::option_text(parsed, "shape")) options.shape = parse_shape(*shape);
  return options;
}

std::string convert_file(const ConvertOptions& options) {
  check_output_is_no_input(options.in, options.out);
  if (options.like) check_output_is_no_input(*options.like, options.out);
  if (options.to_mtx) return bin_to_mtx(options);
  return options.from_mtx ? mtx_to_bin(options) : bin_to_bin(options);
}

}  // namespace spmm::tools
