// Blocks of B are packed a few at a time; kernels write their products as records, which are added.
#include "cpu/rows/block_products.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/records/head.hpp"
#include "plan/memory/streamed_rows.hpp"
#include "plan/panels/tiles.hpp"
#include "spmm/saturate.hpp"
#include "spmm/types.hpp"

namespace spmm::cpu {
namespace {

/// Shapes: a, b = [kM, kM] of u16, of any alignment; sums [kM, kM].
template <std::uint32_t kM>
void add_product(const std::byte* a, const std::byte* b, std::uint32_t* sums) {
  std::array<std::uint16_t, kM * kM> x;
  std::array<std::uint16_t, kM * kM> y;
  std::memcpy(x.data(), a, sizeof x);
  std::memcpy(y.data(), b, sizeof y);
  for (std::uint32_t r = 0; r < kM; ++r) {
    for (std::uint32_t c = 0; c < kM; ++c) {
      std::uint64_t sum = sums[r * kM + c];
      for (std::uint32_t t = 0; t < kM; ++t) sum += multiply_exact(x[r * kM + t], y[t * kM + c]);
      sums[r * kM + c] = saturate(sum);
    }
  }
}

template <std::uint32_t kM>
void add_products(const std::byte* a, const std::byte* b, std::uint64_t count, std::uint32_t first_col,
                  std::uint32_t* sums) {
  for (std::uint64_t x = 0; x < count; ++x, b += input_record_bytes(kM)) {
    const std::uint64_t at = read_index(b).j - first_col;
    add_product<kM>(a + kIndexBytes, b + kIndexBytes, sums + at * kM * kM);
  }
}

}  // namespace

BlockProducts::BlockProducts(std::uint32_t m)
    : isa_(choose_isa()),
      shape_(packed_shape(isa_, m)),
      num_at_once_(plan::num_block_products(shape_)),
      pack_a_(choose_pack_a(shape_)),
      pack_b_(choose_pack_b(shape_)),
      narrow_kernel_(choose_kernel(isa_, shape_, {.wide = false})),
      wide_kernel_(choose_kernel(isa_, shape_, {.wide = true})) {
  if (plan::sums_in_tiles(m)) return;
  a_ = AlignedArray<std::uint16_t>(shape_.a_elements());
  a_row_sums_ = AlignedArray<std::uint32_t>(shape_.rows);
  b_ = AlignedArray<std::uint16_t>(num_at_once_ * shape_.b_elements());
  products_ = AlignedArray<std::byte>(num_at_once_ * output_record_bytes(m));
  pairs_.resize(num_at_once_ + kPairsAhead);
  c_blocks_.resize(num_at_once_);
  for (std::uint32_t x = 0; x < num_at_once_; ++x) pairs_[x] = {.a = 0, .b = x};
}

void BlockProducts::add(const std::byte* a, const std::byte* b, std::uint64_t count, std::uint32_t first_col,
                        std::uint32_t* sums) {
  switch (shape_.m) {
    case 1:
      return add_products<1>(a, b, count, first_col, sums);
    case 2:
      return add_products<2>(a, b, count, first_col, sums);
    case 3:
      return add_products<3>(a, b, count, first_col, sums);
    default:
      break;
  }
  static_assert(plan::sums_in_tiles(3) && !plan::sums_in_tiles(4));
  pack_a(a + kIndexBytes);
  for (std::uint64_t x = 0; x < count; x += num_at_once_) {
    const auto here = static_cast<std::uint32_t>(std::min<std::uint64_t>(num_at_once_, count - x));
    add_packed(b + x * input_record_bytes(shape_.m), here, first_col, sums);
  }
}

void BlockProducts::pack_a(const std::byte* a) {
  a_bits_ = pack_a_(shape_, a, a_.data());
  for (std::uint32_t r = 0; r < shape_.rows; ++r) {
    const std::uint16_t* const row = a_.data() + r * shape_.inner;
    a_row_sums_[r] = 0;
    for (std::uint32_t t = 0; t < shape_.inner; ++t) a_row_sums_[r] += row[t];
  }
}

void BlockProducts::add_packed(const std::byte* b, std::uint32_t count, std::uint32_t first_col, std::uint32_t* sums) {
  const std::uint64_t elements = std::uint64_t{shape_.m} * shape_.m;
  std::uint32_t b_bits = 0;
  for (std::uint32_t x = 0; x < count; ++x, b += input_record_bytes(shape_.m)) {
    c_blocks_[x] = {.col = read_index(b).j, .end = x + 1};
    b_bits |= pack_b_(shape_, b + kIndexBytes, b_.data() + x * shape_.b_elements());
  }
  const PackedBlocks blocks{.a = a_.data(),
                            .b = b_.data(),
                            .a_row_sums = a_row_sums_.data(),
                            .shape = shape_,
                            .arithmetic = choose_arithmetic(shape_, a_bits_, b_bits)};
  const CBlockList list{.row = 0, .c_blocks = {c_blocks_.data(), count}, .begin = 0, .pairs = pairs_.data()};
  const std::byte* const end = (blocks.arithmetic.wide ? wide_kernel_ : narrow_kernel_)(blocks, list, products_.data());
  for (const std::byte* product = products_.data(); product != end; product += output_record_bytes(shape_.m)) {
    std::uint32_t* const to = sums + (read_index(product).j - first_col) * elements;
    for (std::uint64_t e = 0; e < elements; ++e) {
      std::uint32_t value = 0;
      std::memcpy(&value, product + kIndexBytes + e * sizeof value, sizeof value);
      const std::uint32_t sum = to[e] + value;
      to[e] = sum < value ? kMaxVal : sum;
    }
  }
}

}  // namespace spmm::cpu
