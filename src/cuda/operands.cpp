#include "cuda/operands.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "base/record_errors.hpp"
#include "kernels/sort_rows.hpp"
#include "kernels/tuning.hpp"
#include "plan/device_bytes.hpp"

namespace spmm::cuda {
namespace {

constexpr unsigned long long kNone = std::numeric_limits<unsigned long long>::max();

/// Keys in sorted order, and the number that came with each.
struct SortedKeys {
  DeviceBuffer<std::uint64_t> keys;     // [nnzb]
  DeviceBuffer<std::uint32_t> numbers;  // [nnzb]
};

/// What sorting tells: fetched for both matrices at once.
struct Findings {
  unsigned long long first_duplicate = kNone;  // position
  std::uint32_t num_rows = 0;
  std::uint32_t longest_row = 0;  // only where rows are sorted within
};

/// Of A and B. Waits for the stream.
std::array<Findings, 2> fetch_both(const DeviceBuffer<Findings>& found, const Stream& stream) {
  return fetch(reinterpret_cast<const std::array<Findings, 2>*>(found.data()), stream);
}

/// What all steps of the build share.
class Builder {
 public:
  Builder(DeviceMemory& memory, const Stream& stream, std::uint64_t max_blocks, unsigned key_bits)
      : memory_(memory),
        stream_(stream),
        key_bits_(key_bits),
        work_(memory, kernels::build_workspace_bytes(max_blocks), "sort work space") {}

  /// Sorts keys with the numbers 0, 1, 2, ...; stable.
  SortedKeys sort(DeviceBuffer<std::uint64_t> keys) { return sort_bits(number(std::move(keys)), 0).sorted; }
  /// Sorts keys with their own numbers; stable.
  SortedKeys sort(SortedKeys numbered) { return sort_bits(std::move(numbered), 0).sorted; }

  /// The same as the first one in two steps, by row and within rows, with the index of all rows but their number. Where
  /// findings say that a row was too long for it, what is returned must be sorted once more.
  SortedKeys sort_short_rows(DeviceBuffer<std::uint64_t> keys, std::uint32_t nb, Findings* findings,
                             CompressedRows& index) {
    const std::uint64_t count = keys.size();
    const auto max_rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, nb));
    SortSteps steps = sort_bits(number(std::move(keys)), key_bits_);
    index.rows = {memory_, max_rows, "row ids"};
    index.offsets = find_rows(steps.sorted.keys, nb, findings);
    index.columns = {memory_, count, "block columns"};
    kernels::launch_sort_within_rows({.count = count,
                                      .key_bits = key_bits_,
                                      .keys = steps.sorted.keys.data(),
                                      .numbers = steps.sorted.numbers.data(),
                                      .num_rows = &findings->num_rows,
                                      .max_rows = max_rows,
                                      .offsets = index.offsets.data()},
                                     {.count = count,
                                      .sorted_keys = steps.other.keys.data(),
                                      .numbers = steps.other.numbers.data(),
                                      .columns = index.columns.data(),
                                      .rows = index.rows.data(),
                                      .longest_row = &findings->longest_row,
                                      .first_duplicate = &findings->first_duplicate},
                                     stream_.get());
    return std::move(steps.other);
  }

  /// Finds where rows begin; their number is written to `findings`, on the device.
  DeviceBuffer<std::uint32_t> find_rows(const DeviceBuffer<std::uint64_t>& keys, std::uint32_t nb, Findings* findings) {
    DeviceBuffer<std::uint32_t> offsets(memory_, std::min<std::uint64_t>(keys.size(), nb) + 1, "offsets");
    kernels::launch_row_offsets(sorted_view(keys), offsets.data(), &findings->num_rows, workspace(), stream_.get());
    return offsets;
  }

  CompressedRows complete_rows(const DeviceBuffer<std::uint64_t>& keys, DeviceBuffer<std::uint32_t> offsets,
                               const Findings& findings) {
    if (keys.size() == 0) return {};
    CompressedRows out;
    out.num_rows = findings.num_rows;
    out.offsets = std::move(offsets);
    out.rows = {memory_, out.num_rows, "row ids"};
    out.columns = {memory_, keys.size(), "block columns"};
    kernels::launch_row_ids(sorted_view(keys), out.num_rows, out.offsets.data(), out.rows.data(), stream_.get());
    kernels::launch_take_columns(sorted_view(keys), out.columns.data(), stream_.get());
    return out;
  }

  DeviceBuffer<std::uint16_t> gather(DeviceBuffer<std::uint16_t> values, const DeviceBuffer<std::uint32_t>& numbers,
                                     kernels::BlockShape shape) {
    DeviceBuffer<std::uint16_t> out(memory_, numbers.size() * shape.side * shape.side, "operand");
    const auto launch = shape.side == shape.m ? kernels::launch_gather_blocks : kernels::launch_gather_padded;
    launch(values.data(), numbers.data(), numbers.size(), shape.m, out.data(), stream_.get());
    return out;
  }

  [[nodiscard]] kernels::SortedKeysView sorted_view(const DeviceBuffer<std::uint64_t>& keys) const {
    return {.keys = keys.data(), .count = keys.size(), .key_bits = key_bits_};
  }
  [[nodiscard]] unsigned key_bits() const { return key_bits_; }
  [[nodiscard]] const Stream& stream() const { return stream_; }
  [[nodiscard]] DeviceMemory& memory() const { return memory_; }

 private:
  /// Sorted keys, and the arrays beside them.
  struct SortSteps {
    SortedKeys sorted;
    SortedKeys other;
  };

  SortedKeys number(DeviceBuffer<std::uint64_t> keys) {
    DeviceBuffer<std::uint32_t> numbers(memory_, keys.size(), "record numbers");
    kernels::launch_number(numbers.data(), keys.size(), stream_.get());
    return {.keys = std::move(keys), .numbers = std::move(numbers)};
  }

  /// Sorts by the key bits from first_bit on; stable.
  SortSteps sort_bits(SortedKeys sorted, unsigned first_bit) {
    const std::uint64_t count = sorted.keys.size();
    SortedKeys other{.keys = {memory_, count, "sort keys"}, .numbers = {memory_, count, "record numbers"}};
    kernels::SortBuffers<std::uint64_t> k{{sorted.keys.data(), other.keys.data()}};
    kernels::SortBuffers<std::uint32_t> n{{sorted.numbers.data(), other.numbers.data()}};
    kernels::launch_sort_blocks(k, n, count, key_bits_, workspace(), stream_.get(), first_bit);
    if (k.current != 0) std::swap(sorted.keys, other.keys);
    if (n.current != 0) std::swap(sorted.numbers, other.numbers);
    return {.sorted = std::move(sorted), .other = std::move(other)};
  }

  [[nodiscard]] kernels::Workspace workspace() const { return {.data = work_.data(), .bytes = work_.size()}; }

  DeviceMemory& memory_;
  const Stream& stream_;
  unsigned key_bits_;
  DeviceBuffer<std::byte> work_;
};

/// Errors: FormatError for two records of the same block. The sort is stable: the earlier record comes first.
void check_duplicates(const Findings& findings, const SortedKeys& sorted, const Source& source, unsigned key_bits,
                      const Stream& stream) {
  const unsigned long long at = findings.first_duplicate;
  if (at == kNone) return;
  const std::uint64_t key = fetch(sorted.keys.data() + at, stream);
  const BlockIndex found{.i = static_cast<std::uint32_t>(key >> key_bits),
                         .j = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << key_bits) - 1))};
  const auto record = [&](std::uint64_t x) { return fetch(sorted.numbers.data() + x, stream); };
  throw_duplicate_block(source, record(at - 1), record(at), found);
}

/// A matrix on its way from parsed to sorted.
struct Side {
  ParsedMatrix& parsed;
  const Source& source;
  SortedRows& rows;
  SortedKeys sorted = {};
  DeviceBuffer<std::uint32_t> offsets = {};
};

/// Whether both matrices may be sorted by counting: few blocks, rows that are easily sorted, room for the counters.
bool can_count_rows(const ParsedPair& parsed, std::uint32_t m, std::uint32_t nb) {
  const std::uint64_t a = parsed.a.keys.size();
  const std::uint64_t b = parsed.b.keys.size();
  const std::uint64_t most = std::max(a, b);
  if (most > kernels::kCountedBlocks || nb > 2 * most || !plan::has_room_to_count(a, b, m, nb)) return false;
  return nb <= kernels::kBitmapColumns || most <= kernels::kCountedMeanBlocks * std::uint64_t{nb};
}

/// What counting finds of a matrix; on the device, zeros before.
struct CountFindings {
  std::uint32_t num_rows;
  std::uint32_t longest_row;
  std::uint32_t has_duplicate;
};

/// Sorts both matrices by counting. Returns false, keys as they were, where a row is too long for it or a block comes
/// twice. Waits for the stream.
bool sort_by_counting(std::array<Side, 2>& sides, SortedPair& out, DeviceMemory& memory, const Stream& stream) {
  constexpr std::uint64_t kFindingWords = sizeof(CountFindings) / sizeof(std::uint32_t);
  std::array<CompressedRows, 2> index;
  std::array<DeviceBuffer<std::uint64_t>, 2> entries;
  const std::uint64_t num_sorts =
      (sides[0].parsed.keys.size() != 0 ? 1 : 0) + (sides[1].parsed.keys.size() != 0 ? 1 : 0);
  const std::uint64_t num_counts = std::uint64_t{out.nb} * num_sorts;
  // Findings of both lie behind the counts, which are cleared.
  const DeviceBuffer<std::uint32_t> counts(memory, num_counts + 2 * kFindingWords, "row counts");
  auto* const found = reinterpret_cast<CountFindings*>(counts.data() + num_counts);
  DeviceBuffer<std::uint64_t> borders(memory, num_counts + 1, "row borders");
  const DeviceBuffer<std::byte> work(memory, kernels::sort_rows_workspace_bytes(num_counts), "sort work space");
  std::vector<kernels::RowSort> sorts;
  for (std::size_t x = 0; x < 2; ++x) {
    const std::uint64_t count = sides[x].parsed.keys.size();
    if (count == 0) continue;
    const std::uint64_t max_rows = std::min<std::uint64_t>(count, out.nb);
    sides[x].sorted.numbers = {memory, count, "record numbers"};
    index[x].rows = {memory, max_rows, "row ids"};
    index[x].offsets = {memory, max_rows + 1, "offsets"};
    index[x].columns = {memory, count, "block columns"};
    entries[x] = {memory, count, "sort keys"};
    sides[x].sorted.keys = {memory, count, "sort keys"};
    sorts.push_back({.count = count,
                     .keys = sides[x].parsed.keys.data(),
                     .entries = entries[x].data(),
                     .sorted_keys = sides[x].sorted.keys.data(),
                     .numbers = sides[x].sorted.numbers.data(),
                     .columns = index[x].columns.data(),
                     .rows = index[x].rows.data(),
                     .offsets = index[x].offsets.data(),
                     .num_rows = &found[x].num_rows,
                     .longest_row = &found[x].longest_row,
                     .has_duplicate = &found[x].has_duplicate});
  }
  check(cudaMemsetAsync(counts.data(), 0, counts.size() * sizeof(std::uint32_t), stream.get()), "clear counts");
  kernels::launch_sort_rows(
      sorts, {.counts = counts.data(), .borders = borders.data(), .work = {.data = work.data(), .bytes = work.size()}},
      out.nb, out.key_bits, stream.get());
  const auto findings = fetch(reinterpret_cast<const std::array<CountFindings, 2>*>(found), stream);
  const bool too_long = out.nb > kernels::kBitmapColumns &&
                        std::max(findings[0].longest_row, findings[1].longest_row) > kernels::kCountedRowBlocks;
  if (too_long || findings[0].has_duplicate != 0 || findings[1].has_duplicate != 0) {
    for (Side& side : sides) side.sorted = {};
    return false;
  }
  for (std::size_t x = 0; x < 2; ++x) {
    sides[x].parsed.keys = {};
    index[x].num_rows = findings[x].num_rows;
    sides[x].rows.index = std::move(index[x]);
  }
  if (num_sorts == 2 && out.nb <= kernels::kBitmapColumns) out.borders = std::move(borders);
  return true;
}

/// Sorts both matrices, one after the other; rows that may be short by their row first. Waits for the stream. Errors:
/// FormatError (duplicates).
void sort_by_radix(std::array<Side, 2>& sides, bool short_rows, const SortedPair& shape, DeviceMemory& memory,
                   const Stream& stream) {
  std::array<Findings, 2> findings;
  const DeviceBuffer<Findings> found(memory, 2, "flags");
  copy_async(found.data(), findings.data(), 2, stream);
  const std::uint64_t max_blocks = std::max(sides[0].parsed.keys.size(), sides[1].parsed.keys.size());
  Builder builder(memory, stream, max_blocks, shape.key_bits);
  const auto find_rows = [&](std::size_t x) {
    kernels::launch_find_duplicate(builder.sorted_view(sides[x].sorted.keys), &found.data()[x].first_duplicate,
                                   stream.get());
    sides[x].offsets = builder.find_rows(sides[x].sorted.keys, shape.nb, found.data() + x);
  };
  const auto fetch_findings = [&] { findings = fetch_both(found, stream); };
  for (std::size_t x = 0; x < 2; ++x) {
    Side& side = sides[x];
    if (side.parsed.keys.size() == 0) continue;
    if (short_rows) {
      side.sorted = builder.sort_short_rows(std::move(side.parsed.keys), shape.nb, found.data() + x, side.rows.index);
    } else {
      side.sorted = builder.sort(std::move(side.parsed.keys));
      find_rows(x);
    }
  }
  fetch_findings();
  for (std::size_t x = 0; x < 2; ++x) {
    Side& side = sides[x];
    if (short_rows && findings[x].longest_row > kernels::kCountedRowBlocks) {
      side.rows.index = {};
      side.sorted = builder.sort(std::move(side.sorted));
      find_rows(x);
      fetch_findings();
    }
    check_duplicates(findings[x], side.sorted, side.source, shape.key_bits, stream);
    if (side.offsets.size() == 0) {
      side.rows.index.num_rows = findings[x].num_rows;
    } else {
      side.rows.index = builder.complete_rows(side.sorted.keys, std::move(side.offsets), findings[x]);
    }
  }
}

/// Block-CSC of B from its block-CSR, which is only read where it is lent.
void arrange_by_columns(SortedRows b, bool is_lent, Builder& builder, Operands& out) {
  const std::uint64_t count = b.keys.size();
  const cudaStream_t stream = builder.stream().get();
  if (is_lent) b.keys = copy_of(b.keys, builder.memory(), "sort keys");
  kernels::launch_swap_keys(b.keys.data(), count, builder.key_bits(), stream);
  SortedKeys sorted = builder.sort(std::move(b.keys));  // numbers = positions in row order
  Findings findings;
  DeviceBuffer<std::uint32_t> offsets;
  if (count != 0) {
    const DeviceBuffer<Findings> found(builder.memory(), 1, "flags");
    copy_async(found.data(), &findings, 1, builder.stream());
    offsets = builder.find_rows(sorted.keys, out.nb, found.data());
    findings = fetch(found.data(), builder.stream());
  }
  out.b = builder.complete_rows(sorted.keys, std::move(offsets), findings);
  sorted.keys = {};
  // Column order -> row order -> record.
  DeviceBuffer<std::uint32_t> records(builder.memory(), count, "record numbers");
  kernels::launch_compose(b.numbers.data(), sorted.numbers.data(), count, records.data(), stream);
  out.b_values = builder.gather(std::move(b.parsed_values), records, out.shape());
  out.b_rows = is_lent ? b.index.copy(builder.memory()) : std::move(b.index);
  kernels::launch_find_row_index(out.b_rows.columns.data(), count, out.b.view(), out.b_rows.columns.data(), stream);
}

}  // namespace

SortedPair sort_rows(ParsedPair parsed, const Source& a, const Source& b, DeviceMemory& memory, const Stream& stream) {
  SortedPair out;
  out.key_bits = parsed.key_bits;
  out.m = a.header().m;
  out.nb = a.header().blocks_per_side();
  std::array<Side, 2> sides{Side{parsed.a, a, out.a}, Side{parsed.b, b, out.b}};
  const bool may_count = can_count_rows(parsed, out.m, out.nb);
  if (!may_count || !sort_by_counting(sides, out, memory, stream)) {
    const std::uint64_t most = std::max(parsed.a.keys.size(), parsed.b.keys.size());
    const bool short_rows = !may_count && most <= kernels::kCountedMeanBlocks * std::uint64_t{out.nb};
    sort_by_radix(sides, short_rows, out, memory, stream);
  }
  for (Side& side : sides) {
    side.rows.numbers = std::move(side.sorted.numbers);
    side.rows.parsed_values = std::move(side.parsed.values);
    side.rows.max_element = side.parsed.max_element;
    side.rows.has_zeros = side.parsed.has_zeros;
    side.rows.keys = std::move(side.sorted.keys);
  }
  return out;
}

Operands arrange_operands(SortedPair sorted, plan::Layout layout, DeviceMemory& memory, const Stream& stream) {
  Operands out;
  out.b_by_columns = layout == plan::Layout::b_by_columns;
  out.m = sorted.m;
  out.side = layout == plan::Layout::rows ? kernels::padded_side(out.m) : out.m;
  out.nb = sorted.nb;
  out.c_columns = sorted.c_columns == 0 ? sorted.nb : sorted.c_columns;
  out.max_element = std::max(sorted.a.max_element, sorted.b.max_element);
  if (sorted.a.has_zeros && sorted.b.has_zeros) out.can_be_zero = *sorted.a.has_zeros || *sorted.b.has_zeros;
  out.b_row_index = std::move(sorted.b_row_index);
  out.pair_offsets = std::move(sorted.pair_offsets);
  const bool in_file_order = layout == plan::Layout::rows_file_order;
  const auto own_index = [&](SortedRows& rows, const KeptUse& kept) {
    return kept && !in_file_order ? rows.index.copy(memory) : std::move(rows.index);
  };
  out.a = own_index(sorted.a, sorted.kept_a);
  sorted.a.keys = {};
  if (!out.b_by_columns) {
    out.b = own_index(sorted.b, sorted.kept_b);
    sorted.b.keys = {};
  }
  if (in_file_order) {
    out.kept_a = std::move(sorted.kept_a);
    out.kept_b = std::move(sorted.kept_b);
    out.a_values = std::move(sorted.a.parsed_values);
    out.b_values = std::move(sorted.b.parsed_values);
    out.a_numbers = std::move(sorted.a.numbers);
    out.b_numbers = std::move(sorted.b.numbers);
    return out;
  }
  Builder builder(memory, stream, out.b_by_columns ? sorted.b.numbers.size() : 0, sorted.key_bits);
  out.a_values = builder.gather(std::move(sorted.a.parsed_values), sorted.a.numbers, out.shape());
  sorted.kept_a.end();  // there is room for one operand twice, not for two
  if (out.b_by_columns) {
    arrange_by_columns(std::move(sorted.b), static_cast<bool>(sorted.kept_b), builder, out);
  } else {
    out.b_values = builder.gather(std::move(sorted.b.parsed_values), sorted.b.numbers, out.shape());
  }
  sorted.kept_b.end();
  return out;
}

}  // namespace spmm::cuda
