// spmm-info: what is in a matrix file, and what would the product of two be.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/records/head.hpp"
#include "base/records/saturated_count.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "cli/self_description.hpp"
#include "report/json_writer.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "spmm/saturate.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;

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

// ---- one file

/// Number of blocks of each block row (or column) that has some: index and count, by index.
using IndexCounts = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// Counts indices in a table, or in a list if they are few for a large table. Memory: 4 bytes for each entry.
class Counter {
 public:
  Counter(std::uint32_t size, std::uint64_t num_adds) {
    constexpr std::uint64_t kAlwaysTable = std::uint64_t{1} << 20;
    if (size <= std::max(kAlwaysTable, 2 * num_adds)) table_.resize(size);
  }

  void add(std::uint32_t index) {
    if (table_.empty()) {
      list_.push_back(index);
    } else {
      ++table_[index];
    }
  }

  IndexCounts counts() {
    IndexCounts counts;
    for (std::uint32_t index = 0; index < table_.size(); ++index) {
      if (table_[index] > 0) counts.emplace_back(index, table_[index]);
    }
    std::sort(list_.begin(), list_.end());
    for (const std::uint32_t index : list_) {
      if (counts.empty() || counts.back().first != index) counts.emplace_back(index, 0);
      ++counts.back().second;
    }
    return counts;
  }

 private:
  std::vector<std::uint32_t> table_, list_;
};

struct MatrixInfo {
  std::string name;
  MatrixHeader header;
  ElementType type = ElementType::u16;
  std::uint64_t file_bytes = 0;
  bool sorted = true;             ///< records lie in the order of (i, j), none twice
  std::uint64_t zero_blocks = 0;  ///< stored blocks without a non-zero element
  std::uint64_t nonzero_elements = 0;
  std::uint32_t largest_element = 0;
  std::uint64_t saturated_elements = 0;  ///< of a result: those at the limit
  IndexCounts rows{};
  IndexCounts columns{};

  [[nodiscard]] double block_density() const {
    const double nb = header.blocks_per_side();
    return static_cast<double>(header.num_blocks) / (nb * nb);
  }
  [[nodiscard]] double element_density() const {
    return static_cast<double>(nonzero_elements) / (double(header.n) * header.n);
  }
};

/// Values: T = type of the elements. Shapes: values [num] packed.
template <class T>
void scan_block(const std::byte* values, std::uint64_t num, MatrixInfo& info) {
  T largest = 0;
  std::uint64_t nonzero = 0;
  for (std::uint64_t e = 0; e < num; ++e) {
    T value = 0;
    std::memcpy(&value, values + e * sizeof(T), sizeof(T));
    largest = std::max(largest, value);
    nonzero += value != 0 ? 1 : 0;
  }
  info.largest_element = std::max<std::uint32_t>(info.largest_element, largest);
  info.nonzero_elements += nonzero;
  info.zero_blocks += largest == 0 ? 1 : 0;
}

/// Reads a whole file. Errors: InputError, FormatError (an index out of range; a block stored twice is not sought),
/// IoError, Interrupted.
MatrixInfo read_info(const std::string& path, std::optional<ElementType> type) {
  const tools::MatrixFile matrix = tools::open_matrix(path, type, ElementType::u16);
  const MatrixHeader header = matrix.file.header();
  MatrixInfo info{
      .name = matrix.file.name(), .header = header, .type = matrix.type, .file_bytes = matrix.file.file_bytes()};
  Counter rows(header.blocks_per_side(), header.num_blocks);
  Counter columns(header.blocks_per_side(), header.num_blocks);
  const std::uint64_t num_elements = std::uint64_t{header.m} * header.m;
  BlockIndex before;
  tools::for_each_piece(matrix.file, "spmm-info", [&](std::uint64_t first, std::span<const std::byte> records) {
    const std::uint64_t bytes = matrix.file.record_bytes();
    for (std::uint64_t r = 0; r < records.size() / bytes; ++r) {
      const std::byte* const record = &records[r * bytes];
      const BlockIndex at = read_index(record);
      tools::check_index(matrix.file, first + r, at);
      info.sorted = info.sorted && (first + r == 0 || before < at);
      before = at;
      rows.add(at.i);
      columns.add(at.j);
      matrix.type == ElementType::u16 ? scan_block<std::uint16_t>(record + kIndexBytes, num_elements, info)
                                      : scan_block<std::uint32_t>(record + kIndexBytes, num_elements, info);
    }
    if (matrix.type == ElementType::u32) info.saturated_elements += count_saturated(records);
  });
  info.rows = rows.counts();
  info.columns = columns.counts();
  matrix.file.check_unchanged();
  return info;
}

/// Numbers of blocks of all block rows (or columns), those without blocks included.
struct Distribution {
  std::uint32_t min = 0;
  double median = 0;
  double mean = 0;
  std::uint32_t max = 0;
  std::uint64_t empty = 0;                ///< those without blocks
  std::vector<std::uint64_t> by_power{};  ///< [b] = those with 2^b to 2^(b+1) - 1 blocks
};

Distribution distribution_of(const IndexCounts& counts, std::uint64_t size) {
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

// ---- two files

/// The product of two matrices as far as the places of their blocks and their largest elements tell.
struct ProductInfo {
  std::uint64_t pairs = 0;            ///< block products, exact
  std::uint64_t expected_blocks = 0;  ///< result blocks if the pairs fall anywhere
  std::uint64_t max_blocks = 0;       ///< result blocks at most
  std::uint64_t expected_bytes = 0;   ///< output file with expected_blocks
  std::uint64_t max_bytes = 0;        ///< output file with max_blocks
  /// Pairs of a result block below which none of its elements reaches the limit; 2^64 - 1 if no number suffices.
  std::uint64_t saturating_pairs = UINT64_MAX;
  std::uint64_t max_saturated_elements = 0;  ///< elements at the limit at most; 0: none can saturate
};

/// Errors: ShapeError if n or m differ.
ProductInfo predict_product(const MatrixInfo& a, const MatrixInfo& b) {
  if (a.header.n != b.header.n || a.header.m != b.header.m) {
    throw ShapeError(b.name,
                     text("n = ", b.header.n, ", m = ", b.header.m, ", expected n = ", a.header.n, ", m = ", a.header.m,
                          " as in ", a.name),
                     "give two matrices of the same size and block side");
  }
  ProductInfo product;
  auto row = b.rows.begin();
  for (const auto& [index, count] : a.columns) {
    while (row != b.rows.end() && row->first < index) ++row;
    if (row != b.rows.end() && row->first == index) product.pairs += std::uint64_t{count} * row->second;
  }
  const std::uint64_t m = a.header.m;
  const std::uint64_t nb = a.header.blocks_per_side();
  product.max_blocks = std::min(product.pairs, std::uint64_t{a.rows.size()} * b.columns.size());
  // A cell stays empty with probability (1 - 1 / cells)^pairs.
  const auto cells = static_cast<double>(nb * nb);
  const double expected = -std::expm1(-static_cast<double>(product.pairs) / cells) * cells;
  product.expected_blocks = std::min(product.max_blocks, static_cast<std::uint64_t>(std::llround(expected)));
  product.expected_bytes = kHeaderBytes + product.expected_blocks * output_record_bytes(a.header.m);
  product.max_bytes = kHeaderBytes + product.max_blocks * output_record_bytes(a.header.m);
  if (a.largest_element == 0 || b.largest_element == 0) return product;
  const std::uint64_t term = std::min<std::uint64_t>(std::uint64_t{a.largest_element} * b.largest_element, kMaxVal);
  const std::uint64_t needed = product.saturating_pairs = (kMaxVal + term * m - 1) / (term * m);
  const auto num_with = [&](const IndexCounts& counts) {
    return static_cast<std::uint64_t>(
        std::count_if(counts.begin(), counts.end(), [&](const auto& count) { return count.second >= needed; }));
  };
  // A block with so many pairs lies in a row of A and a column of B that have as many blocks.
  product.max_saturated_elements = m * m *
                                   std::min({num_with(a.rows) * num_with(b.columns), product.pairs / needed,
                                             product.max_blocks, UINT64_MAX / (m * m)});
  return product;
}

// ---- as text

std::string percent(double share) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.4g %%", share * 100);
  return out.data();
}

std::string histogram(const Distribution& rows) {
  constexpr std::uint64_t kBarWidth = 40;
  std::uint64_t most = rows.empty;
  for (const std::uint64_t count : rows.by_power) most = std::max(most, count);
  std::string lines = "block rows by number of blocks:\n";
  const auto add = [&](const std::string& label, std::uint64_t num) {
    const std::uint64_t bar = num == 0 ? 0 : std::max<std::uint64_t>(1, num * kBarWidth / most);
    const std::string padding(label.size() < 22 ? 22 - label.size() : 1, ' ');
    lines += text("  ", label, padding, std::string(bar, '#'), bar > 0 ? " " : "", num, "\n");
  };
  if (rows.empty > 0) add("0", rows.empty);
  bool begun = false;
  for (std::size_t power = 0; power < rows.by_power.size(); ++power) {
    begun = begun || rows.by_power[power] > 0;
    const std::uint64_t low = std::uint64_t{1} << power;
    if (begun) add(power == 0 ? "1" : text(low, " - ", 2 * low - 1), rows.by_power[power]);
  }
  return lines;
}

std::string info_text(const MatrixInfo& info) {
  const MatrixHeader& header = info.header;
  const std::uint32_t nb = header.blocks_per_side();
  const Distribution rows = distribution_of(info.rows, nb);
  return text(printable(info.name), "\nn ", header.n, ", m ", header.m, ", blocks ", header.num_blocks,
              " (k) on a grid of ", nb, " x ", nb, ", elements of ", info.type == ElementType::u16 ? 16 : 32,
              " bits\nfile size: ", info.file_bytes, " bytes (", human_bytes(info.file_bytes),
              ")\ndensity: ", percent(info.block_density()), " of the blocks, ", percent(info.element_density()),
              " of the elements (", info.nonzero_elements, " are not 0)\nlargest element: ", info.largest_element,
              "\nall-zero blocks: ", info.zero_blocks, "\n",
              info.saturated_elements > 0 ? cli::saturation_text(info.saturated_elements) + "\n" : "",
              "records: ", info.sorted ? "" : "not ", "in the order of (i, j)\nblocks per block row: min ", rows.min,
              ", median ", rows.median, ", mean ", rows.mean, ", max ", rows.max, "; empty block rows: ", rows.empty,
              "\n", histogram(rows));
}

std::string product_text(const ProductInfo& product, std::uint32_t m) {
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

// ---- as JSON

void add_distribution(cli::JsonWriter& json, const char* name, const Distribution& counts) {
  json.open(name, '{')
      .add("empty", counts.empty)
      .add("min", counts.min)
      .add("median", counts.median)
      .add("mean", counts.mean)
      .add("max", counts.max)
      .open("histogram", '[');
  for (std::size_t power = 0; power < counts.by_power.size(); ++power) {
    const std::uint64_t low = std::uint64_t{1} << power;
    json.open("", '{').add("from", low).add("to", 2 * low - 1).add("count", counts.by_power[power]).close('}');
  }
  json.close(']').close('}');
}

void add_info(cli::JsonWriter& json, const char* name, const MatrixInfo& info) {
  json.open(name, '{')
      .add("file", info.name)
      .add("type", tools::type_name(info.type))
      .add("n", info.header.n)
      .add("m", info.header.m)
      .add("blocks", info.header.num_blocks)
      .add("blocks_per_side", info.header.blocks_per_side())
      .add("file_bytes", info.file_bytes)
      .add("block_density", info.block_density())
      .add("element_density", info.element_density())
      .add("nonzero_elements", info.nonzero_elements)
      .add("largest_element", info.largest_element)
      .add("saturated_elements", info.saturated_elements)
      .add("zero_blocks", info.zero_blocks)
      .add("sorted", info.sorted);
  add_distribution(json, "block_rows", distribution_of(info.rows, info.header.blocks_per_side()));
  add_distribution(json, "block_columns", distribution_of(info.columns, info.header.blocks_per_side()));
  json.close('}');
}

void add_product(cli::JsonWriter& json, const char* name, const ProductInfo& product) {
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
      ("transpose-b", "two files: predict the product with the transpose of the second one");
  cli::add_common_options(options);
  options.parse_positional({"file", "file2"});
  return options;
}

int run(const cli::ParsedOptions& parsed) {
  const std::string file = cli::required_positional(parsed, "file", "matrix file");
  const auto type = tools::type_option(parsed);
  const bool as_json = cli::option_flag(parsed, "json");
  const bool two_files = parsed.count("file2") > 0;
  for (const char* option : {"transpose-a", "transpose-b"}) {
    if (two_files || parsed.count(option) == 0) continue;
    throw UsageError(std::string("--") + option, "is of a product", "name two files, or leave it out");
  }

  cli::JsonWriter json(2);
  if (two_files) json.open("", '{');
  std::string lines;
  const auto describe = [&](const MatrixInfo& info, const char* key) {
    if (as_json) {
      add_info(json, two_files ? key : "", info);
      return;
    }
    lines += info_text(info);
    if (two_files) lines += "\n";
  };
  MatrixInfo a = read_info(file, type);
  describe(a, "a");
  if (two_files) {
    MatrixInfo b = read_info(cli::required_positional(parsed, "file2", "second file"), type);
    describe(b, "b");
    if (cli::option_flag(parsed, "transpose-a")) std::swap(a.rows, a.columns);
    if (cli::option_flag(parsed, "transpose-b")) std::swap(b.rows, b.columns);
    const ProductInfo product = predict_product(a, b);
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
