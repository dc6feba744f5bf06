#include "cuda/operands.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/record_errors.hpp"

namespace spmm::cuda {
namespace {

constexpr unsigned long long kNone = std::numeric_limits<unsigned long long>::max();

/// Keys in sorted order, and the record each came from.
struct SortedBlocks {
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

  SortedBlocks sort(DeviceBuffer<std::uint64_t> keys) {
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
  void check_duplicates(const SortedBlocks& sorted, const Source& source, bool by_row) {
    copy_async(word_.data(), &kNone, 1, stream_);
    kernels::launch_find_duplicate(sorted.keys.data(), sorted.keys.size(), word_.data(), stream_.get());
    const unsigned long long at = fetch(word_.data(), stream_);
    if (at == kNone) return;
    const std::uint64_t key = fetch(sorted.keys.data() + at, stream_);
    const auto high = static_cast<std::uint32_t>(key >> key_bits_);
    const auto low = static_cast<std::uint32_t>(key & ((std::uint64_t{1} << key_bits_) - 1));
    const BlockIndex found = by_row ? BlockIndex{.i = high, .j = low} : BlockIndex{.i = low, .j = high};
    throw_duplicate_block(source.name(), fetch(sorted.numbers.data() + at - 1, stream_),
                          fetch(sorted.numbers.data() + at, stream_), input_record_bytes(source.header().m), found);
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

  DeviceBuffer<std::uint16_t> gather(DeviceBuffer<std::uint16_t> values, const SortedBlocks& sorted, std::uint32_t m,
                                     bool transpose) {
    DeviceBuffer<std::uint16_t> out(memory_, values.size(), "operand");
    kernels::launch_gather_blocks(values.data(), sorted.numbers.data(), sorted.numbers.size(), m, transpose, out.data(),
                                  stream_.get());
    stream_.synchronize();  // values are freed on return
    return out;
  }

  /// Block-CSR of B from its keys in column order, inner = slots of `columns`.
  Lines rows_of_b(DeviceBuffer<std::uint64_t> keys, std::uint32_t nb, const Lines& columns) {
    const std::uint64_t count = keys.size();
    DeviceBuffer<std::uint64_t> other(memory_, count, "sort keys");
    kernels::launch_swap_keys(keys.data(), count, key_bits_, stream_.get());
    kernels::SortBuffers<std::uint64_t> k{{keys.data(), other.data()}};
    kernels::launch_sort_keys(k, count, 2 * key_bits_, workspace(), stream_.get());
    Lines out = compress(k.current == 0 ? keys : other, nb);
    kernels::launch_find_slots(out.inner.data(), count, columns.view(), out.inner.data(), stream_.get());
    stream_.synchronize();  // both key buffers are freed on return
    return out;
  }

 private:
  [[nodiscard]] kernels::Workspace workspace() const { return {.data = work_.data(), .bytes = work_.size()}; }

  DeviceMemory& memory_;
  const Stream& stream_;
  unsigned key_bits_;
  DeviceBuffer<std::byte> work_;
  DeviceBuffer<unsigned long long> word_;  // [1], small results
};

}  // namespace

Operands build_operands(ParsedPair parsed, const Source& a, const Source& b, DeviceMemory& memory,
                        const Stream& stream) {
  const std::uint32_t m = a.header().m;
  const std::uint32_t nb = a.header().blocks_per_side();
  Builder builder(memory, stream, std::max(a.header().num_blocks, b.header().num_blocks), parsed.key_bits);
  Operands out;
  {
    const SortedBlocks sorted = builder.sort(std::move(parsed.a.keys));
    builder.check_duplicates(sorted, a, true);
    out.a.index = builder.compress(sorted.keys, nb);
    out.a.values = builder.gather(std::move(parsed.a.values), sorted, m, false);
  }
  SortedBlocks sorted = builder.sort(std::move(parsed.b.keys));
  builder.check_duplicates(sorted, b, false);
  out.b.index = builder.compress(sorted.keys, nb);
  out.b.values = builder.gather(std::move(parsed.b.values), sorted, m, true);
  out.b_rows = builder.rows_of_b(std::move(sorted.keys), nb, out.b.index);
  return out;
}

void count_pairs(Operands& operands, DeviceMemory& memory, const Stream& stream) {
  const std::uint64_t count = operands.a.index.inner.size();
  operands.row_pair_offsets.assign(operands.a.index.num_lines + std::size_t{1}, 0);
  if (count == 0 || operands.b_rows.num_lines == 0) return;
  operands.b_row_slots = {memory, count, "row slots"};
  operands.pair_offsets = {memory, count + 1, "pair offsets"};
  DeviceBuffer<std::uint64_t> row_offsets(memory, operands.row_pair_offsets.size(), "row pair offsets");
  const DeviceBuffer<std::byte> work(memory, kernels::count_workspace_bytes(count), "count work space");
  kernels::launch_find_slots(operands.a.index.inner.data(), count, operands.b_rows.view(), operands.b_row_slots.data(),
                             stream.get());
  kernels::launch_pair_offsets(operands.b_row_slots.data(), count, operands.b_rows.view(), operands.pair_offsets.data(),
                               {.data = work.data(), .bytes = work.size()}, stream.get());
  kernels::launch_row_pair_offsets(operands.a.index.view(), operands.pair_offsets.data(), row_offsets.data(),
                                   stream.get());
  copy_async(operands.row_pair_offsets.data(), row_offsets.data(), row_offsets.size(), stream);
  stream.synchronize();
}

}  // namespace spmm::cuda
