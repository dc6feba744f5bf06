// spmm-info: what is in a matrix file, and what would the product of two be.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "report/json_writer.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "tools/info/matrix_info.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;

constexpr std::uint64_t kMaxThreads = 1024;

constexpr const char* kNotes = R"(
Examples:
  spmm-info a.bin
  spmm-info a.bin b.bin
  spmm-info a.bin b.bin --json | jq .product.pairs
  spmm-info out.bin --type u32

With one file: header, file size, density, blocks per block row, largest element, all-zero blocks, and of a result how
many elements are at the limit 4294967295. With two files, A and B, also what A * B will be: the exact number of pairs (block products), the number of result blocks to be expected where
blocks are spread evenly, and at most, the output's size, and how many elements can saturate at most, by the largest
elements of A and B and the number of pairs. The whole file is read. Indices are checked; whether a block is stored twice is seen only by reading "sorted"
in the report: records in strictly rising order hold no block twice.

Exit codes: 0 ok, 2 usage, 65 malformed file or files of different n or m, 66 no such file, 71 memory, 74 reading failed,
75 interrupted.
)";

constexpr std::size_t kBarWidth = 40;

/// Numbers of blocks seen as a sample over all block rows (or columns), those without blocks included.
struct Distribution {
  std::uint32_t min = 0;
  double median = 0;
  double mean = 0;
  std::uint32_t max = 0;
  std::uint64_t empty = 0;                ///< those without blocks
  std::vector<std::uint64_t> by_power{};  ///< [b] = those with 2^b to 2^(b+1) - 1 blocks
};

Distribution distribution_of(const tools::IndexCounts& counts, std::uint64_t size) {
  Distribution result{.empty = size - counts.size()};
  std::vector<std::uint32_t> sorted;
  double total = 0;
  for (const auto& [index, count] : counts) {
    sorted.push_back(count);
    total += count;
    const auto power = static_cast<std::size_t>(std::bit_width(count)) - 1;
    if (result.by_power.size() <= power) result.by_power.resize(power + 1);
    ++result.by_power[power];
  }
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](std::uint64_t place) { return place < result.empty ? 0 : sorted[place - result.empty]; };
  result.min = at(0);
  result.max = at(size - 1);
  result.mean = total / static_cast<double>(size);
  result.median = (static_cast<double>(at((size - 1) / 2)) + at(size / 2)) / 2;
  return result;
}

double block_density(const tools::MatrixInfo& info) {
  const double nb = info.header.blocks_per_side();
  return static_cast<double>(info.num_blocks) / (nb * nb);
}

double element_density(const tools::MatrixInfo& info) {
  const double n = info.header.n;
  return static_cast<double>(info.nonzero_elements) / (n * n);
}

std::string percent(double share) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.4g %%", share * 100);
  return out.data();
}

/// Lowest and highest count of a step of the histogram.
std::uint64_t step_low(std::size_t power) {
  return std::uint64_t{1} << power;
}
std::uint64_t step_high(std::size_t power) {
  return 2 * step_low(power) - 1;
}

std::string histogram_line(const std::string& label, std::uint64_t rows, std::uint64_t most) {
  const std::uint64_t bar = rows == 0 ? 0 : std::max<std::uint64_t>(1, rows * kBarWidth / most);
  const std::string padding(label.size() < 22 ? 22 - label.size() : 1, ' ');
  return text("  ", label, padding, std::string(bar, '#'), bar > 0 ? " " : "", rows, "\n");
}

std::string histogram(const Distribution& rows) {
  std::uint64_t most = rows.empty;
  for (const std::uint64_t count : rows.by_power) most = std::max(most, count);
  std::string lines = "block rows by number of blocks:\n";
  if (rows.empty > 0) lines += histogram_line("0", rows.empty, most);
  const auto first = std::find_if(rows.by_power.begin(), rows.by_power.end(), [](std::uint64_t c) { return c > 0; });
  for (auto power = static_cast<std::size_t>(first - rows.by_power.begin()); power < rows.by_power.size(); ++power) {
    const std::string label = power == 0 ? "1" : text(step_low(power), " - ", step_high(power));
    lines += histogram_line(label, rows.by_power[power], most);
  }
  return lines;
}

void add_distribution(cli::JsonWriter& json, const char* name, const Distribution& counts) {
  json.open(name, '{')
      .add("empty", counts.empty)
      .add("min", counts.min)
      .add("median", counts.median)
      .add("mean", counts.mean)
      .add("max", counts.max)
      .open("histogram", '[');
  for (std::size_t power = 0; power < counts.by_power.size(); ++power) {
    json.open("", '{').add("from", step_low(power)).add("to", step_high(power)).add("count", counts.by_power[power]);
    json.close('}');
  }
  json.close(']').close('}');
}

std::string info_text(const tools::MatrixInfo& info) {
  const MatrixHeader& header = info.header;
  const Distribution rows = distribution_of(info.rows, info.header.blocks_per_side());
  std::string lines = text(printable(info.name), "\n");
  lines += text("n ", header.n, ", m ", header.m, ", blocks ", info.num_blocks, " (k) on a grid of ",
                header.blocks_per_side(), " x ", header.blocks_per_side(), ", elements of ",
                info.type == ElementType::u16 ? 16 : 32, " bits\n");
  lines += text("file size: ", info.file_bytes, " bytes (", human_bytes(info.file_bytes), ")\n");
  lines += text("density: ", percent(block_density(info)), " of the blocks, ", percent(element_density(info)),
                " of the elements (", info.nonzero_elements, " are not 0)\n");
  lines += text("largest element: ", info.largest_element, "\nall-zero blocks: ", info.zero_blocks, "\n");
  if (info.saturated_elements > 0) lines += cli::saturation_text(info.saturated_elements) + "\n";
  lines += text("records: ", info.sorted ? "in the order of (i, j)" : "not in the order of (i, j)", "\n");
  lines += text("blocks per block row: min ", rows.min, ", median ", rows.median, ", mean ", rows.mean, ", max ",
                rows.max, "; empty block rows: ", rows.empty, "\n");
  return lines + histogram(rows);
}

std::string product_text(const tools::ProductInfo& product, std::uint32_t m) {
  const std::string saturation = product.max_saturated_elements == 0
                                     ? "none can saturate"
                                     : text("at most ", cli::saturation_text(product.max_saturated_elements),
                                            ", all in result blocks of ", product.saturating_pairs, " pairs or more");
  return text("product (from the places of the blocks, and the largest elements)\npairs: ", product.pairs, " (exact), ",
              static_cast<double>(product.pairs) * m * m * m, " multiply-adds\nresult blocks: about ",
              product.expected_blocks, " if the blocks are evenly spread, at most ", product.max_blocks,
              "\noutput file: about ", product.expected_bytes, " bytes (", human_bytes(product.expected_bytes),
              "), at most ", product.max_bytes, " bytes (", human_bytes(product.max_bytes), ")\nelements: ", saturation,
              "\n");
}

void add_info(cli::JsonWriter& json, const char* name, const tools::MatrixInfo& info) {
  json.open(name, '{')
      .add("file", info.name)
      .add("type", tools::type_name(info.type))
      .add("n", info.header.n)
      .add("m", info.header.m)
      .add("blocks", info.num_blocks)
      .add("blocks_per_side", info.header.blocks_per_side())
      .add("file_bytes", info.file_bytes)
      .add("block_density", block_density(info))
      .add("element_density", element_density(info))
      .add("nonzero_elements", info.nonzero_elements)
      .add("largest_element", info.largest_element)
      .add("saturated_elements", info.saturated_elements)
      .add("zero_blocks", info.zero_blocks)
      .add("sorted", info.sorted);
  add_distribution(json, "block_rows", distribution_of(info.rows, info.header.blocks_per_side()));
  add_distribution(json, "block_columns", distribution_of(info.columns, info.header.blocks_per_side()));
  json.close('}');
}

void add_product(cli::JsonWriter& json, const char* name, const tools::ProductInfo& product) {
  json.open(name, '{')
      .add("pairs", product.pairs)
      .add("expected_blocks", product.expected_blocks)
      .add("max_blocks", product.max_blocks)
      .add("expected_bytes", product.expected_bytes)
      .add("max_bytes", product.max_bytes)
      .add("max_saturated_elements", product.max_saturated_elements)
      .close('}');
}

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-info", "Shows what is in a block-sparse matrix file.\n");
  options.usage("[options] FILE [FILE2]", "spmm info");
  options.add_options("hidden")("file", "", value())("file2", "", value());
  options.add_options()                                                                    //
      ("json", "print JSON")                                                               //
      ("type", "elements of the files: auto, u16 or u32", value("auto"), "TYPE")           //
      ("transpose-a", "two files: predict the product of the transpose of the first one")  //
      ("transpose-b", "the same of the second one")                                        //
      ("threads", "threads (default: all cores)", value(), "T");
  cli::add_common_options(options);
  options.parse_positional({"file", "file2"});
  return options;
}

int run(const cli::ParsedOptions& parsed) {
  const std::string file = cli::required_positional(parsed, "file", "matrix file");
  const auto type = tools::type_option(parsed);
  const auto threads =
      static_cast<unsigned>(cli::option_count(parsed, "threads", 1, kMaxThreads).value_or(usable_cores()));
  const bool as_json = cli::option_flag(parsed, "json");
  const bool two_files = parsed.count("file2") > 0;
  for (const char* option : {"transpose-a", "transpose-b"}) {
    if (two_files || parsed.count(option) == 0) continue;
    throw UsageError(std::string("--") + option, "is of a product", "name two files, or leave it out");
  }

  cli::JsonWriter json(2);
  if (two_files) json.open("", '{');
  std::string lines;
  const auto describe = [&](tools::MatrixInfo& info, const char* key) {
    if (as_json) {
      add_info(json, two_files ? key : "", info);
      return;
    }
    lines += info_text(info);
    if (two_files) lines += "\n";
  };
  tools::MatrixInfo a = tools::read_info(file, type, threads);
  describe(a, "a");
  if (two_files) {
    tools::MatrixInfo b = tools::read_info(cli::required_positional(parsed, "file2", "second file"), type, threads);
    describe(b, "b");
    if (cli::option_flag(parsed, "transpose-a")) std::swap(a.rows, a.columns);
    if (cli::option_flag(parsed, "transpose-b")) std::swap(b.rows, b.columns);
    const tools::ProductInfo product = tools::predict_product(a, b);
    add_product(json, "product", product);
    json.close('}');
    lines += product_text(product, a.header.m);
  }
  if (as_json) lines = json.take() + "\n";
  cli::print_answer(lines);
  return cli::kOk;
}

}  // namespace

int spmm::tools::info_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-info", .options = make_options, .notes = kNotes}, argc, argv, run);
}
