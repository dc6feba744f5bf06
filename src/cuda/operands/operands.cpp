// Parsed matrices -> rows sorted by radix, and the layout that a kernel wants.
#include "cuda/operands/operands.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "kernels/tuning.hpp"
#include "plan/memory/device_bytes.hpp"

namespace spmm::cuda {
namespace {

constexpr unsigned long long kNone = std::numeric_limits<unsigned long long>::max();

/// Keys in sorted order, and the number that came with each.
struct SortedKeys {
  DeviceBuffer<std::uint64_t> keys;     // [nnzb]
  DeviceBuffer<std::uint32_t> numbers;  // [nnzb]
};

/// What compressing rows tells.
struct Findings {
  unsigned long long first_duplicate = kNone;  // position
  std::uint32_t num_rows = 0;
  std::uint32_t unused = 0;
};

/// What all steps of the build share.
class Builder {
 public:
  Builder(DeviceMemory& memory, const Stream& stream, std::uint64_t max_blocks, unsigned key_bits)
      : memory_(memory),
        stream_(stream),
        key_bits_(key_bits),
        work_(memory, kernels::build_workspace_bytes(max_blocks), "sort work space") {}

  /// Sorts keys with the numbers 0, 1, 2, ...; stable.
  SortedKeys sort(DeviceBuffer<std::uint64_t> keys) {
    const std::uint64_t count = keys.size();
    SortedKeys sorted{.keys = std::move(keys), .numbers = {memory_, count, "record numbers"}};
    SortedKeys other{.keys = {memory_, count, "sort keys"}, .numbers = {memory_, count, "record numbers"}};
    kernels::SortBuffers<std::uint64_t> k{{sorted.keys.data(), other.keys.data()}};
    kernels::SortBuffers<std::uint32_t> n{{sorted.numbers.data(), other.numbers.data()}};
    kernels::launch_sort_blocks(k, n, count, key_bits_, workspace(), stream_.get());
    if (k.current != 0) std::swap(sorted.keys, other.keys);
    if (n.current != 0) std::swap(sorted.numbers, other.numbers);
    return sorted;
  }

  /// The index of sorted keys, all but the number of its rows, which is written to `findings`, on the device.
  CompressedRows compress(const DeviceBuffer<std::uint64_t>& keys, std::uint32_t nb, Findings* findings) {
    CompressedRows index({keys.size(), nb}, memory_);
    kernels::launch_compress_rows(
        {.keys = keys.data(), .count = keys.size(), .key_bits = key_bits_},
        {.rows = index.rows.data(), .offsets = index.offsets.data(), .columns = index.columns.data()},
        &findings->num_rows, &findings->first_duplicate, workspace(), stream_.get());
    return index;
  }

  [[nodiscard]] unsigned key_bits() const { return key_bits_; }
  [[nodiscard]] const Stream& stream() const { return stream_; }
  [[nodiscard]] DeviceMemory& memory() const { return memory_; }

 private:
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

/// Block-CSC of B from its block-CSR.
void arrange_by_columns(SortedRows b, Builder& builder, DeviceOperands& out) {
  const std::uint64_t count = b.keys.size();
  const cudaStream_t stream = builder.stream().get();
  kernels::launch_swap_keys(b.keys.data(), count, builder.key_bits(), stream);
  SortedKeys sorted = builder.sort(std::move(b.keys));  // numbers = positions in row order
  const Findings nothing{};
  const DeviceBuffer<Findings> found(builder.memory(), 1, "flags");
  copy_async(found.data(), &nothing, 1, builder.stream());
  out.b = builder.compress(sorted.keys, out.nb, found.data());
  out.b.num_rows = fetch(found.data(), builder.stream()).num_rows;
  sorted.keys = {};
  // Column order -> row order -> record.
  DeviceBuffer<std::uint32_t> records(builder.memory(), count, "record numbers");
  kernels::launch_compose(b.numbers.data(), sorted.numbers.data(), count, records.data(), stream);
  out.b_values = {builder.memory(), count * out.side * out.side, "operand"};
  gather(b.parsed_values, records, out.shape(), out.b_values, builder.stream());
  b.parsed_values = {};
  out.b_rows = std::move(b.index);
  kernels::launch_find_row_index(out.b_rows.columns.data(), count, out.b.view(), out.b_rows.columns.data(), stream);
}

}  // namespace

void sort_rows(ParsedOperands& parsed, const Source& a, const Source& b, SortedOperands& out, DeviceMemory& memory,
               const Stream& stream) {
  using Both = std::array<Findings, 2>;
  const Both nothing{};
  const DeviceBuffer<Both> found(memory, 1, "flags");
  copy_async(found.data(), &nothing, 1, stream);
  auto* const findings_there = reinterpret_cast<Findings*>(found.data());
  Builder builder(memory, stream, std::max(parsed.a.keys.size(), parsed.b.keys.size()), out.key_bits);
  std::array<SortedKeys, 2> sorted;
  for (std::size_t x = 0; x < 2; ++x) {
    sorted[x] = builder.sort(std::move(x == 0 ? parsed.a.keys : parsed.b.keys));
    (x == 0 ? out.a : out.b).index = builder.compress(sorted[x].keys, out.nb, findings_there + x);
  }
  const Both findings = fetch(found.data(), stream);
  for (std::size_t x = 0; x < 2; ++x) {
    check_duplicates(findings[x], sorted[x], x == 0 ? a : b, out.key_bits, stream);
    SortedRows& rows = x == 0 ? out.a : out.b;
    rows.index.num_rows = findings[x].num_rows;
    rows.numbers = std::move(sorted[x].numbers);
    rows.keys = std::move(sorted[x].keys);
  }
}

void gather(const DeviceBuffer<std::uint16_t>& values, const DeviceBuffer<std::uint32_t>& numbers,
            kernels::BlockShape shape, const DeviceBuffer<std::uint16_t>& out, const Stream& stream) {
  kernels::launch_gather_blocks({.values = values.data(), .count = numbers.size()}, numbers.data(), shape, out.data(),
                                stream.get());
}

DeviceOperands arrange_operands(SortedOperands sorted, plan::Layout layout, DeviceMemory& memory,
                                const Stream& stream) {
  DeviceOperands out;
  out.b_by_columns = layout == plan::Layout::b_by_columns;
  out.m = sorted.m;
  out.side = layout == plan::Layout::rows ? kernels::padded_side(out.m) : out.m;
  out.nb = sorted.nb;
  out.c_columns = sorted.c_columns == 0 ? sorted.nb : sorted.c_columns;
  out.max_element = std::max(sorted.a.max_element, sorted.b.max_element);
  out.can_be_zero = sorted.a.has_zeros || sorted.b.has_zeros;
  out.b_row_index = std::move(sorted.b_row_index);
  out.pair_offsets = std::move(sorted.pair_offsets);
  const bool in_file_order = layout == plan::Layout::rows_file_order;
  out.a = std::move(sorted.a.index);
  sorted.a.keys = {};
  if (!out.b_by_columns) {
    out.b = std::move(sorted.b.index);
    sorted.b.keys = {};
  }
  if (in_file_order) {
    out.a_values = std::move(sorted.a.parsed_values);
    out.b_values = std::move(sorted.b.parsed_values);
    out.a_numbers = std::move(sorted.a.numbers);
    out.b_numbers = std::move(sorted.b.numbers);
    return out;
  }
  const auto arrange = [&](SortedRows& rows, DeviceBuffer<std::uint16_t>& values) {
    if (rows.in_order && out.side == out.m && !sorted.keeps_order) {
      values = std::move(rows.parsed_values);
    } else {
      values = {memory, rows.numbers.size() * out.side * out.side, "operand"};
      gather(rows.parsed_values, rows.numbers, out.shape(), values, stream);
      rows.parsed_values = {};
    }
  };
  arrange(sorted.a, out.a_values);
  if (out.b_by_columns) {
    Builder builder(memory, stream, sorted.b.numbers.size(), sorted.key_bits);
    arrange_by_columns(std::move(sorted.b), builder, out);
  } else {
    arrange(sorted.b, out.b_values);
  }
  if (sorted.keeps_order) {
    out.a_order = std::move(sorted.a.numbers);
    out.b_order = std::move(sorted.b.numbers);
  }
  return out;
}

}  // namespace spmm::cuda
