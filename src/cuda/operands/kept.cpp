// Operands that stay on a device from product to product.
#include "cuda/operands/kept.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "kernels/blocks/arrays.hpp"

namespace spmm::cuda {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

template <class T>
std::uint64_t bytes_of(const DeviceBuffer<T>& buffer) {
  return buffer.size() * sizeof(T);
}

/// What a product without kept operands would hold; it drops the keys early.
std::uint64_t bytes_without_keys(const SortedRows& rows) {
  return bytes_of(rows.index.rows) + bytes_of(rows.index.offsets) + bytes_of(rows.index.columns) +
         bytes_of(rows.numbers) + bytes_of(rows.parsed_values);
}

/// Upper bound of what is kept of an operand.
std::uint64_t most_bytes(const MatrixHeader& header) {
  const std::uint64_t per_block = std::uint64_t{2} * header.m * header.m + 8 + 4 + 4;  // elements, key, number, column
  const std::uint64_t rows = std::min(header.num_blocks, header.blocks_per_side());
  return per_block * header.num_blocks + 8 * rows + 4;
}

SortedRows lend(const SortedRows& rows) {
  return {.index = {.num_rows = rows.index.num_rows,
                    .rows = rows.index.rows.lend(),
                    .offsets = rows.index.offsets.lend(),
                    .columns = rows.index.columns.lend()},
          .keys = rows.keys.lend(),
          .numbers = rows.numbers.lend(),
          .parsed_values = rows.parsed_values.lend(),
          .max_element = rows.max_element,
          .has_zeros = rows.has_zeros};
}

/// The same operand for the other side of a product.
SortedRows transposed_copy(const SortedRows& rows, std::uint32_t m, DeviceMemory& memory) {
  SortedRows out{.index = rows.index.copy(memory),
                 .keys = copy_of(rows.keys, memory, "sort keys"),
                 .numbers = copy_of(rows.numbers, memory, "record numbers"),
                 .parsed_values = {memory, rows.parsed_values.size(), "input elements"},
                 .max_element = rows.max_element,
                 .has_zeros = {}};
  kernels::launch_transpose_blocks({.values = rows.parsed_values.data(), .count = rows.numbers.size()}, nullptr, m,
                                   out.parsed_values.data(), {}, memory.stream().get());
  return out;
}

/// Products of other threads may drop it: the device need not be current there.
std::shared_ptr<const KeptOperand> make_kept(SortedRows& rows, bool is_transposed, const Stream& by) {
  const auto destroy = [device = by.context().device()](const KeptOperand* operand) {
    try {
      const DeviceGuard guard(device);
      delete operand;
    } catch (...) {  // no device to give anything back to
    }
  };
  return {new KeptOperand(rows, is_transposed, by), destroy};
}

}  // namespace

KeptOperand::KeptOperand(SortedRows& filled, bool is_transposed, const Stream& by)
    : stream(by.context()), memory(stream, kNoLimit), transposed(is_transposed) {
  ready.record(by);
  stream.wait_for(ready);
  rows = std::move(filled);
  rows.index.rows.hand_over(memory);
  rows.index.offsets.hand_over(memory);
  rows.index.columns.hand_over(memory);
  rows.keys.hand_over(memory);
  rows.numbers.hand_over(memory);
  rows.parsed_values.hand_over(memory);
}

KeptUse::KeptUse(KeptClaim claim, DeviceMemory& memory) {
  const auto& operand = *static_cast<const KeptOperand*>(claim.item().get());
  memory.stream().wait_for(operand.ready);
  claim_ = std::move(claim);
  memory_ = &memory;
  bytes_ = bytes_without_keys(operand.rows);
  memory.add_lent(bytes_);
}

KeptUse::~KeptUse() {
  if (memory_ == nullptr) return;
  mark_end();
  memory_->hold(std::move(claim_));
}

void KeptUse::end() noexcept {
  if (memory_ == nullptr) return;
  mark_end();
  memory_ = nullptr;
  claim_.release();
}

/// Lets the operand's stream wait for the work that uses it.
void KeptUse::mark_end() noexcept {
  const Stream& stream = memory_->stream();
  memory_->remove_lent(bytes_);
  try {
    const Event done;
    done.record(stream);
    operand().stream.wait_for(done);
  } catch (...) {
    stream.settle();
  }
}

OperandSide::OperandSide(const Source& source, bool is_b, bool keep)
    : source_(source), no_records_(source), is_b_(is_b), keep_(keep), identity_(source.identity()) {}

void OperandSide::claim(OperandSide& a, OperandSide& b, const Run& run) {
  if (run.memory == nullptr) return;
  const std::array<KeptWish, 2> wishes{a.wish(), b.wish()};
  const auto timing = run.clock.scope(Stage::budget);
  std::vector<KeptClaim> claims = run.memory->claim(wishes, run.cancel);
  a.claim_ = std::move(claims.front());
  b.claim_ = std::move(claims.back());
}

KeptWish OperandSide::wish() const {
  const MatrixHeader& header = source_.header();
  if (header.num_blocks == 0) return {};
  return {.identity = identity_, .keep = keep_, .bytes = most_bytes(header)};
}

const Source& OperandSide::to_read() const {
  if (is_kept()) return no_records_;
  return source_;
}

KeptUse OperandSide::exchange(SortedRows& rows, DeviceMemory& memory) {
  if (is_kept()) {
    KeptUse use(std::move(claim_), memory);
    if (use.operand().transposed == is_b_) {
      rows = lend(use.operand().rows);
      return use;
    }
    rows = transposed_copy(use.operand().rows, source_.header().m, memory);
    use.end();
    return {};
  }
  if (!claim_.is_promised()) return {};
  if (source_.identity() !=
      identity_) {  // changed while it was read: what was read is neither the old nor the new file
    claim_.release();
    return {};
  }
  std::shared_ptr<const KeptOperand> kept = make_kept(rows, is_b_, memory.stream());
  const std::uint64_t bytes = bytes_without_keys(kept->rows) + bytes_of(kept->rows.keys);
  claim_.provide(bytes, kept);
  KeptUse use(std::move(claim_), memory);
  rows = lend(use.operand().rows);
  return use;
}

}  // namespace spmm::cuda
