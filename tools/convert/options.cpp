// The command line of spmm-convert.
#include "tools/convert/convert.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "io/files/input_file.hpp"
#include "io/formats/foreign_format.hpp"
#include "io/system/retried.hpp"
#include "spmm/error.hpp"
#include "spmm/types.hpp"
#include "tools/common/matrix_file.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kMax32 = UINT32_MAX;

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
    const io::Descriptor fd = io::open_regular_file(path);
    std::array<std::byte, kHeaderBytes> head{};
    const ssize_t got = io::retried([&] { return ::pread(fd.get(), head.data(), head.size(), 0); });
    const auto first_bytes = std::span(head).first(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    const io::ForeignFormat found = io::find_foreign_format(first_bytes);
    if (found == io::ForeignFormat::matrix_market) return true;
    const bool may_be = found == io::ForeignFormat::none || found == io::ForeignFormat::text;
    if (may_be && ends_in_mtx(path)) return true;  // its reader says what is wrong
    io::reject_foreign_format(first_bytes, path);
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
  return {.rows = cli::parse_count(given.value.substr(0, cross), given.where, 1, kMax32),
          .columns = cli::parse_count(given.value.substr(cross + 1), given.where, 1, kMax32)};
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
  if (const auto n = cli::option_count(parsed, "n", 1, kMax32)) options.n = static_cast<std::uint32_t>(*n);
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

}  // namespace

cli::OptionTable make_convert_options() {
  using cli::value;
  cli::OptionTable options("spmm-convert", "Converts matrices of other programs to block-sparse files, and back.\n");
  options.usage("[options] IN OUT", "spmm convert");
  options.add_options("hidden")("in", "", value())("out", "", value());
  options.add_options()                                                                      //
      ("transpose", "write the transposed matrix")                                           //
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
  options.transposed = cli::option_flag(parsed, "transpose");
  options.quiet = cli::option_flag(parsed, "quiet");
  if (const auto scale = cli::option_text(parsed, "scale")) options.rule.scale = parse_scale(*scale);
  options.rule.round = cli::option_flag(parsed, "round");
  options.rule.saturate = cli::option_choice(parsed, "on-overflow", {"error", "saturate"}) == 1;
  options.type = type_option(parsed);
  if (const auto shape = cli::option_text(parsed, "shape")) options.shape = parse_shape(*shape);
  return options;
}

}  // namespace spmm::tools
