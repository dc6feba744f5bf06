// spmm-info: what is in a matrix file.
#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options.hpp"
#include "cli/program.hpp"
#include "report/json.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/common/options.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;

constexpr const char* kNotes = R"(
Examples:
  spmm-info a.bin
  spmm-info a.bin --json | jq .block_rows.max
  spmm-info out.bin --type u32

Header, file size, density, blocks per block row, largest element, all-zero blocks, and of a result how many elements are
at the limit 4294967295. The whole file is read. Indices are checked; records in strictly rising order ("sorted") hold no
block twice. What a product will be: spmm --plan A B.

Exit codes: 0 ok, 2 usage, 65 malformed file, 66 no such file, 71 memory, 74 reading failed, 75 interrupted.
)";

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
  std::uint64_t saturated = 0;
  for (std::uint64_t e = 0; e < num; ++e) {
    T value = 0;
    std::memcpy(&value, values + e * sizeof(T), sizeof(T));
    largest = std::max(largest, value);
    nonzero += value != 0 ? 1 : 0;
    saturated += value == UINT32_MAX ? 1 : 0;
  }
  info.saturated_elements += saturated;
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
  tools::for_each_record(matrix.file, "spmm-info", [&](std::uint64_t number, BlockIndex at, const std::byte* record) {
    info.sorted = info.sorted && (number == 0 || before < at);
    before = at;
    rows.add(at.i);
    columns.add(at.j);
    matrix.type == ElementType::u16 ? scan_block<std::uint16_t>(record + kIndexBytes, num_elements, info)
                                    : scan_block<std::uint32_t>(record + kIndexBytes, num_elements, info);
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

// ---- as text

std::string percent(double share) {
  return tools::format("%.4g %%", share * 100);
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

void add_info(cli::JsonWriter& json, const MatrixInfo& info) {
  json.open("", '{')
      .add("file", info.name)
      .add("type", info.type == ElementType::u16 ? "u16" : "u32")
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

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-info", "Shows what is in a block-sparse matrix file.\n");
  options.usage("[options] FILE", "spmm info");
  options.add_options("hidden")("file", "", value());
  options.add_options()       //
      ("json", "print JSON")  //
      ("type", "elements of the file: auto, u16 or u32", value("auto"), "TYPE");
  cli::add_common_options(options);
  options.parse_positional({"file"});
  return options;
}

int run(const cli::ParsedOptions& parsed) {
  const std::string file = cli::required_positional(parsed, "file", "matrix file");
  const MatrixInfo info = read_info(file, tools::type_option(parsed));
  cli::JsonWriter json(2);
  const bool as_json = cli::option_flag(parsed, "json");
  if (as_json) add_info(json, info);
  cli::print_answer(as_json ? json.take() + "\n" : info_text(info));
  return cli::kOk;
}

}  // namespace

int spmm::tools::info_main(int argc, char** argv) {
  return cli::run_program({.name = "spmm-info", .options = make_options, .notes = kNotes}, argc, argv, run);
}
