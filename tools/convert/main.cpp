// spmm-convert: matrices of other programs to block-sparse files, and back.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/program.hpp"
#include "io/formats/foreign_format.hpp"
#include "spmm/error.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/common/options.hpp"
#include "tools/convert/convert.hpp"
#include "tools/spmm/subcommands.hpp"

namespace spmm::tools {
namespace {

constexpr const char* kNotes = R"(
Examples:
  spmm-convert a.mtx a.bin --block 8
  spmm-convert b.mtx b.bin --like a.bin
  spmm a.bin b.bin c.bin && spmm-convert c.bin c.mtx --shape 3000x200
  spmm a.bin a.bin aa.bin && spmm-convert aa.bin aa16.bin && spmm aa16.bin a.bin aaa.bin
  spmm-convert prices.mtx p.bin --scale 100 --round           hundredths as whole numbers
  spmm-convert p2.bin p2.mtx --scale 1/10000                  their products

One of IN and OUT is a block-sparse file (.bin), the other one is a .bin too or
  .mtx   Matrix Market: coordinate; integer, unsigned-integer, real or pattern (each element 1); general,
         symmetric or hermitian. Written: coordinate, general; integer, or real with --scale
NumPy's .npy and .npz: python3 -m spmm convert IN OUT.
IN is known by its content, OUT by its ending: .mtx, else it is a .bin.

To .bin: elements that are stored several times are added up, exactly. A sum, times --scale, must be a whole number from 0 to
65535. Any other is an error that names the place, and nothing is written, unless --round or --on-overflow saturate is
given; the last line says how many were rounded, raised to 0 and cut to 65535. Rectangular matrices are padded with
zeros to a square. Both operands of a product need one n and one m: convert the second with --like FIRST.bin, or both
with the same --n and --block. --block auto takes the side of 1 to 16, 32 and 64 whose file is the shortest.

.bin to .bin: a result becomes an operand of the next product: its elements of 32 bits become elements of 16 bits by
the same rule; n and the side of the blocks stay.

From .bin: inputs (16-bit elements) and results (32-bit) are told apart by their lengths; --type says it if both fit.
--shape cuts the padding off. Elements keep the order of the file. With --scale they become real.

Exit codes: 0 written, 2 usage, 65 IN breaks its format or has elements that do not fit, 66 no such file, 71 memory,
73 cannot create OUT, 74 reading or writing failed, 75 interrupted (nothing was written).
)";

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
  const std::string_view word = given.value;
  const std::size_t slash = word.find('/');
  const double divisor = slash == word.npos ? 1 : parse_number(word.substr(slash + 1)).value_or(0);
  const double value = divisor == 0 ? 0 : parse_number(word.substr(0, slash)).value_or(0) / divisor;
  if (std::isfinite(divisor) && std::isfinite(value) && value != 0) return value;
  throw UsageError(given.where, "\"" + given.value + "\" is not a factor",
                   "give a number such as 256, 0.5 or 1/65536, not 0");
}

MatrixShape parse_shape(const cli::OptionText& given) {
  const std::size_t cross = given.value.find('x');
  if (cross == std::string::npos) {
    throw UsageError(given.where, "\"" + given.value + "\" is not a shape", "write rows and columns, as in 3000x200");
  }
  return {.rows = cli::parse_count(given.value.substr(0, cross), given.where, 1, UINT32_MAX),
          .columns = cli::parse_count(given.value.substr(cross + 1), given.where, 1, UINT32_MAX)};
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
  if (const auto n = cli::option_count(parsed, "n", 1, UINT32_MAX)) options.n = static_cast<std::uint32_t>(*n);
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

int run(const cli::ParsedOptions& parsed) {
  const ConvertOptions options = parse_convert_options(parsed);
  const auto start = std::chrono::steady_clock::now();
  const std::string summary = convert_file(options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!options.quiet) std::cout << text(printable(summary), ", in ", seconds.count(), " s\n");
  return cli::kOk;
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

int convert_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-convert", .options = make_convert_options, .notes = kNotes}, argc, argv, run);
}

}  // namespace spmm::tools
