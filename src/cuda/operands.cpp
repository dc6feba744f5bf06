#include "cuda/operands.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/record_errors.hpp"

namespace spmm::cuda {
namespace {

constexpr unsigned long long kNone = std::numeric_limits<unsigned long long>::max();

/// Keys in sorted order, and the number that came with each.
struct SortedKeys {
  DeviceBuffer<std::uint64_t> keys;     // [nnzb]
  DeviceBuffer<std::uint32_t> numbers;  // [nnzb]
};

/// What all steps of the build share.
class Builder {
 public:
  Builder(DeviceMemory& memory, const Stream& stream, std::uint64_t max_blocks, unsigned key_bits)
      : memory_(memory),
        stream_(stream),
        key_bits_(key_bits),
        work_(memory, kernels::build_workspace_bytes(max_blocks), "sort work space"),
        word_(memory, 1, "flag") {}

  /// Sorts keys with the numbers 0, 1, 2, ...; stable.
  SortedKeys sort(DeviceBuffer<std::uint64_t> keys) {
    const std::uint64_t count = keys.size();
    DeviceBuffer<std::uint64_t> other_keys(memory_, count, "sort keys");
    DeviceBuffer<std::uint32_t> numbers(memory_, count, "record numbers");
    DeviceBuffer<std::uint32_t> other_numbers(memory_, count, "record numbers");
    kernels::launch_number(numbers.data(), count, stream_.get());
    kernels::SortBuffers<std::uint64_t> k{{keys.data(), other_keys.data()}};
    kernels::SortBuffers<std::uint32_t> n{{numbers.data(), other_numbers.data()}};
    kernels::launch_sort_blocks(k, n, count, key_bits_, workspace(), stream_.get());
    stream_.synchronize();  // the losing buffers are freed on return
    return {.keys = k.current == 0 ? std::move(keys) : std::move(other_keys),
            .numbers = n.current == 0 ? std::move(numbers) : std::move(other_numbers)};
  }

  /// Errors: FormatError if two records hold the same block. The sort is stable: the earlier record comes first.
  void check_duplicates(const SortedKeys& sorted, const Source& source) {
    copy_async(word_.data(), &kNone, 1, stream_);
    kernels::launch_find_duplicate(sorted.keys.data(), sorted.keys.size(), word_.data(), stream_.get());
    const unsigned long long at = fetch(word_.data(), stream_);
    if (at == kNone) return;
    const std::uint64_t key = fetch(sorted.keys.data() + at, stream_);
    const BlockIndex found{.i = static_cast<std::uint32_t>(key >> key_bits_),
                           .j = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << key_bits_) - 1))};
    const auto record = [&](std::uint64_t x) {
      return source.original_record(fetch(sorted.numbers.data() + x, stream_));
    };
    throw_duplicate_block(source.name(), record(at - 1), record(at), input_record_bytes(source.header().m), found);
  }

  Lines compress(const DeviceBuffer<std::uint64_t>& keys, std::uint32_t nb) {
    const std::uint64_t count = keys.size();
    if (count == 0) return {};
    Lines out;
    DeviceBuffer<std::uint32_t> offsets(memory_, std::min<std::uint64_t>(count, nb) + 1, "offsets");
    auto* const num_lines = reinterpret_cast<std::uint32_t*>(word_.data());
    kernels::launch_line_offsets(keys.data(), count, key_bits_, offsets.data(), num_lines, workspace(), stream_.get());
    out.num_lines = fetch(num_lines, stream_);
    out.offsets = std::move(offsets);
    out.lines = {memory_, out.num_lines, "line numbers"};
    out.inner = {memory_, count, "inner indices"};
    kernels::launch_line_numbers(keys.data(), count, key_bits_, out.num_lines, out.offsets.data(), out.lines.data(),
                                 stream_.get());
    kernels::launch_inner(keys.data(), count, key_bits_, out.inner.data(), stream_.get());
    return out;
  }

  SortedRows sort_rows(ParsedMatrix parsed, const Source& source, bool keep_keys) {
    SortedKeys sorted = sort(std::move(parsed.keys));
    check_duplicates(sorted, source);
    SortedRows out{.index = compress(sorted.keys, source.header().blocks_per_side()),
                   .keys = {},
                   .numbers = std::move(sorted.numbers),
                   .parsed_values = std::move(parsed.values),
                   .max_element = parsed.max_element};
    stream_.synchronize();  // keys may be freed on return
    if (keep_keys) out.keys = std::move(sorted.keys);
    return out;
  }

  DeviceBuffer<std::uint16_t> gather(DeviceBuffer<std::uint16_t> values, const DeviceBuffer<std::uint32_t>& numbers,
                                     std::uint32_t m, bool transpose) {
    DeviceBuffer<std::uint16_t> out(memory_, values.size(), "operand");
    kernels::launch_gather_blocks(values.data(), numbers.data(), numbers.size(), m, transpose, out.data(),
                                  stream_.get());
    stream_.synchronize();  // values are freed on return
    return out;
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
  DeviceBuffer<unsigned long long> word_;  // [1], small results
};

/// Block-CSC of B from its block-CSR.
void arrange_by_columns(SortedRows b, Builder& builder, Operands& out) {
  const std::uint64_t count = b.keys.size();
  const cudaStream_t stream = builder.stream().get();
  kernels::launch_swap_keys(b.keys.data(), count, builder.key_bits(), stream);
  const SortedKeys sorted = builder.sort(std::move(b.keys));  // numbers = positions in row order
  out.b = builder.compress(sorted.keys, out.nb);
  // Column order -> row order -> record.
  DeviceBuffer<std::uint32_t> records(builder.memory(), count, "record numbers");
  kernels::launch_compose(b.numbers.data(), sorted.numbers.data(), count, records.data(), stream);
  out.b_values = builder.gather(std::move(b.parsed_values), records, out.m, true);
  out.b_rows = std::move(b.index);
  kernels::launch_find_slots(out.b_rows.inner.data(), count, out.b.view(), out.b_rows.inner.data(), stream);
  builder.stream().synchronize();  // sort buffers are freed on return
}

}  // namespace

SortedPair sort_rows(ParsedPair parsed, const Source& a, const Source& b, DeviceMemory& memory, const Stream& stream) {
  Builder builder(memory, stream, std::max(a.header().num_blocks, b.header().num_blocks), parsed.key_bits);
  SortedPair out;
  out.key_bits = parsed.key_bits;
  out.m = a.header().m;
  out.nb = a.header().blocks_per_side();
  out.a = builder.sort_rows(std::move(parsed.a), a, false);
  out.b = builder.sort_rows(std::move(parsed.b), b, true);
  return out;
}

void count_pairs(SortedPair& sorted, DeviceMemory& memory, const Stream& stream) {
  const Lines& a = sorted.a.index;
  const std::uint64_t count = a.inner.size();
  sorted.row_pair_offsets.assign(a.num_lines + std::size_t{1}, 0);
  if (count == 0 || sorted.b.index.num_lines == 0) return;
  sorted.b_row_slots = {memory, count, "row slots"};
  sorted.pair_offsets = {memory, count + 1, "pair offsets"};
  DeviceBuffer<std::uint64_t> row_offsets(memory, sorted.row_pair_offsets.size(), "row pair offsets");
  const DeviceBuffer<std::byte> work(memory, kernels::count_workspace_bytes(count), "count work space");
  const kernels::LinesView b_rows = sorted.b.index.view();
  kernels::launch_find_slots(a.inner.data(), count, b_rows, sorted.b_row_slots.data(), stream.get());
  kernels::launch_pair_offsets(sorted.b_row_slots.data(), count, b_rows, sorted.pair_offsets.data(),
                               {.data = work.data(), .bytes = work.size()}, stream.get());
  kernels::launch_row_pair_offsets(a.view(), sorted.pair_offsets.data(), row_offsets.data(), stream.get());
  copy_async(sorted.row_pair_offsets.data(), row_offsets.data(), row_offsets.size(), stream);
  stream.synchronize();
}

Operands arrange_operands(SortedPair sorted, bool b_by_columns, DeviceMemory& memory, const Stream& stream) {
  Operands out;
  out.b_by_columns = b_by_columns;
  out.m = sorted.m;
  out.nb = sorted.nb;
  out.max_element = std::max(sorted.a.max_element, sorted.b.max_element);
  Builder builder(memory, stream, b_by_columns ? sorted.b.numbers.size() : 0, sorted.key_bits);
  out.a_values = builder.gather(std::move(sorted.a.parsed_values), sorted.a.numbers, out.m, false);
  out.a = std::move(sorted.a.index);
  if (b_by_columns) {
    arrange_by_columns(std::move(sorted.b), builder, out);
  } else {
    out.b_values = builder.gather(std::move(sorted.b.parsed_values), sorted.b.numbers, out.m, true);
    out.b = std::move(sorted.b.index);
  }
  out.b_row_slots = std::move(sorted.b_row_slots);
  out.pair_offsets = std::move(sorted.pair_offsets);
  return out;
}

}  // namespace spmm::cuda
