// Writes a list of elements as an input matrix.
#include "tools/convert/blocks/writer.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/records/head.hpp"
#include "base/text.hpp"
#include "cli/program.hpp"
#include "io/files/output_file.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr std::size_t kWriteBytes = std::size_t{4} << 20;

/// Records that go to the file 4 MB at a time.
class RecordBuffer {
 public:
  RecordBuffer(io::OutputFile& file, std::uint32_t m) : file_(file), record_(input_record_bytes(m)) {
    bytes_.reserve(std::max<std::size_t>(kWriteBytes, record_));
  }

  /// Room for one more record, all zero.
  std::byte* add() {
    if (bytes_.size() + record_ > bytes_.capacity()) flush();
    ++num_records_;
    bytes_.resize(bytes_.size() + record_);
    return bytes_.data() + bytes_.size() - record_;
  }

  void flush() {
    cli::check_cancelled("spmm-convert");
    file_.write_at(offset_, bytes_);
    offset_ += bytes_.size();
    bytes_.clear();
  }

  [[nodiscard]] std::uint64_t num_records() const { return num_records_; }

 private:
  io::OutputFile& file_;
  std::size_t record_;
  std::vector<std::byte> bytes_;
  std::uint64_t offset_ = kHeaderBytes;
  std::uint64_t num_records_ = 0;
};

/// An element inside a block row in one number, so that sorting groups the elements of a block.
std::uint64_t packed(const MatrixEntry& entry, std::uint32_t m) {
  const std::uint64_t place = std::uint64_t{entry.row % m} * m + entry.column % m;  // below 64 * 64
  return std::uint64_t{entry.column / m} << 32 | place << 16 | static_cast<std::uint16_t>(entry.value);
}

/// Writes the elements of one block row. Shapes: elements packed(), in any order.
void write_block_row(RecordBuffer& records, std::uint32_t i, std::vector<std::uint64_t>& elements) {
  std::sort(elements.begin(), elements.end());
  std::byte* record = nullptr;
  std::uint64_t before = UINT64_MAX;
  for (const std::uint64_t element : elements) {
    const std::uint64_t j = element >> 32;
    if (j != before) {
      record = records.add();
      write_index(record, {.i = i, .j = static_cast<std::uint32_t>(j)});
      before = j;
    }
    const auto value = static_cast<std::uint16_t>(element);
    std::memcpy(record + kIndexBytes + (element >> 16 & 0xFFFF) * sizeof value, &value, sizeof value);
  }
}

/// Gives a file of all records its header and its name. Errors: OutOfMemory (more blocks than a file holds),
/// OutputError, IoError.
MatrixHeader close_file(io::OutputFile& file, RecordBuffer& records, std::uint32_t n, std::uint32_t m) {
  constexpr std::uint64_t kMaxBlocks = UINT32_MAX;
  if (records.num_records() > kMaxBlocks) {
    throw OutOfMemory(
        file.name(),
        text("the matrix has ", records.num_records(), " blocks of side ", m, ", a file at most ", kMaxBlocks),
        "store it with larger blocks");
  }
  records.flush();
  const MatrixHeader header{.n = n, .m = m, .num_blocks = static_cast<std::uint32_t>(records.num_records())};
  file.finish(header);
  file.publish();
  return header;
}

/// The elements of the current block of a walk by the rule. Returns whether one is not 0.
bool rule_block(const BlockWalk& walk, const ElementRule& rule, std::vector<std::uint16_t>& values,
                ChangedElements& changed) {
  bool any = false;
  for (std::size_t e = 0; e < values.size(); ++e) {
    const std::uint32_t value = walk.elements()[e];
    const RuledElement element = value == 0 ? RuledElement{} : apply_rule(value, 1, false, rule);
    if (element.fault != ElementFault::none) {
      const auto row = static_cast<std::uint32_t>(walk.at().i * walk.m() + e / walk.m());
      const auto column = static_cast<std::uint32_t>(walk.at().j * walk.m() + e % walk.m());
      throw_at_element(walk.matrix().file.name(),
                       {.row = walk.transposed() ? column : row,
                        .column = walk.transposed() ? row : column,
                        .sum = static_cast<double>(value),
                        .num_values = 1,
                        .fault = element.fault},
                       0, rule);
    }
    values[e] = element.value;
    any = any || element.value != 0;
    changed.count(element.change);
  }
  return any;
}

}  // namespace

MatrixHeader write_blocks(const std::filesystem::path& path, const std::vector<MatrixEntry>& entries, std::uint32_t n,
                          std::uint32_t m) {
  io::OutputFile file(path, {});
  const std::uint64_t least_blocks = (entries.size() + std::uint64_t{m} * m - 1) / (std::uint64_t{m} * m);
  file.expect_bytes(kHeaderBytes + least_blocks * input_record_bytes(m));
  RecordBuffer records(file, m);
  std::vector<std::uint64_t> elements;
  for (std::size_t begin = 0; begin < entries.size();) {
    const std::uint32_t i = entries[begin].row / m;
    elements.clear();
    for (; begin < entries.size() && entries[begin].row / m == i; ++begin) {
      elements.push_back(packed(entries[begin], m));
    }
    write_block_row(records, i, elements);
  }
  return close_file(file, records, n, m);
}

MatrixHeader rewrite_blocks(const std::filesystem::path& path, BlockWalk& walk, const ElementRule& rule,
                            ChangedElements& changed) {
  io::OutputFile file(path, {});
  RecordBuffer records(file, walk.m());
  std::vector<std::uint16_t> values(std::size_t{walk.m()} * walk.m());
  for (walk.rewind(); walk.next();) {
    if (!rule_block(walk, rule, values, changed)) continue;
    std::byte* const record = records.add();
    write_index(record, walk.at());
    std::memcpy(record + kIndexBytes, values.data(), values.size() * sizeof(std::uint16_t));
  }
  return close_file(file, records, walk.matrix().file.header().n, walk.m());
}

}  // namespace spmm::tools
