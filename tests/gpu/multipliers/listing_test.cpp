// Pairs of a panel listed in both ways, against a stable sort on the host; products whose rows differ in weight.
#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/device/raii.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/tuning.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/matrix_builder.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using test::on_gpu;

constexpr unsigned kColumnBits = 20;
constexpr std::uint32_t kNumColumns = 1u << kColumnBits;

/// Positions of the blocks of two matrices: the row index in B of every block of A.
struct Structure {
  std::vector<std::uint32_t> a_offsets{0};  // [rows of A + 1]
  std::vector<std::uint32_t> slots;         // [blocks of A]
  std::vector<std::uint32_t> b_offsets{0};  // [rows of B + 1]
  std::vector<std::uint32_t> b_inner;       // [blocks of B], ascending per row
  std::vector<std::uint32_t> a_numbers;     // [blocks of A]
  std::vector<std::uint32_t> b_numbers;     // [blocks of B]
  std::vector<std::uint64_t> pair_offsets;  // [blocks of A + 1]

  [[nodiscard]] std::uint32_t num_rows() const { return static_cast<std::uint32_t>(a_offsets.size() - 1); }
  [[nodiscard]] std::uint64_t pairs_before(std::uint32_t row) const { return pair_offsets[a_offsets[row]]; }
};

/// B: a row of every length from 1 to max_length. A: a row per weight, whose blocks make that many pairs; among them
/// blocks that make none. A row of B may come twice in a row of A, so that some C blocks have several pairs.
Structure structure_of(const std::vector<std::uint32_t>& weights, std::uint32_t max_length, std::uint32_t num_columns,
                       std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Structure s;
  for (std::uint32_t length = 1; length <= max_length; ++length) {
    std::set<std::uint32_t> columns;
    while (columns.size() < length) columns.insert(static_cast<std::uint32_t>(random() % num_columns));
    s.b_inner.insert(s.b_inner.end(), columns.begin(), columns.end());
    s.b_offsets.push_back(static_cast<std::uint32_t>(s.b_inner.size()));
  }
  for (const std::uint32_t weight : weights) {
    for (std::uint32_t left = weight; left > 0;) {
      if (random() % 4 == 0) s.slots.push_back(kernels::kNoRow);
      const std::uint32_t length = 1 + static_cast<std::uint32_t>(random() % std::min(left, max_length));
      s.slots.push_back(length - 1);
      left -= length;
    }
    if (weight == 0) s.slots.push_back(kernels::kNoRow);
    s.a_offsets.push_back(static_cast<std::uint32_t>(s.slots.size()));
  }
  s.pair_offsets.push_back(0);
  for (const std::uint32_t slot : s.slots) {
    const std::uint32_t pairs = slot == kernels::kNoRow ? 0 : s.b_offsets[slot + 1] - s.b_offsets[slot];
    s.pair_offsets.push_back(s.pair_offsets.back() + pairs);
  }
  for (std::uint32_t x = 0; x < s.slots.size(); ++x) s.a_numbers.push_back(x * 7 + 1);
  for (std::uint32_t x = 0; x < s.b_inner.size(); ++x) s.b_numbers.push_back(x * 5 + 3);
  return s;
}

/// The list of a panel, on the host.
struct List {
  std::vector<std::array<std::uint32_t, 2>> pairs;
  std::vector<std::uint64_t> c_block_keys;
  std::vector<std::uint32_t> offsets;

  bool operator==(const List&) const = default;
};

List expected_list(const Structure& s, std::uint32_t row_begin, std::uint32_t row_end, bool in_order) {
  std::vector<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>> pairs;
  for (std::uint32_t row = row_begin; row < row_end; ++row) {
    for (std::uint32_t p = s.a_offsets[row]; p < s.a_offsets[row + 1]; ++p) {
      if (s.slots[p] == kernels::kNoRow) continue;
      for (std::uint32_t b = s.b_offsets[s.slots[p]]; b < s.b_offsets[s.slots[p] + 1]; ++b) {
        const std::uint64_t key = std::uint64_t{row - row_begin} << kColumnBits | s.b_inner[b];
        pairs.emplace_back(key, in_order ? p : s.a_numbers[p], in_order ? b : s.b_numbers[b]);
      }
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& x, const auto& y) { return get<0>(x) < get<0>(y); });
  List list;
  for (const auto& [key, a, b] : pairs) {
    if (list.c_block_keys.empty() || list.c_block_keys.back() != key) {
      list.c_block_keys.push_back(key);
      list.offsets.push_back(static_cast<std::uint32_t>(list.pairs.size()));
    }
    list.pairs.push_back({a, b});
  }
  list.offsets.push_back(static_cast<std::uint32_t>(list.pairs.size()));
  return list;
}

/// A structure on the device, and the arrays of a listing.
class DeviceStructure {
 public:
  explicit DeviceStructure(const Structure& s) : s_(s) { stream_.synchronize(); }

  /// Lists rows [row_begin, row_end) by the kernel for short rows, or by sorting all pairs.
  List list(std::uint32_t row_begin, std::uint32_t row_end, bool in_order, bool short_rows,
            std::uint64_t max_row_pairs) {
    const std::uint64_t first_pair = s_.pairs_before(row_begin);
    const std::uint64_t num_pairs = s_.pairs_before(row_end) - first_pair;
    const std::size_t work_bytes = short_rows ? kernels::list_short_rows_workspace_bytes(num_pairs, max_row_pairs)
                                              : kernels::list_pairs_workspace_bytes(num_pairs);
    const cuda::DeviceBuffer<std::uint64_t> keys(memory_, num_pairs * 2, "keys");
    const cuda::DeviceBuffer<kernels::BlockPair> pairs(memory_, num_pairs * 2, "pairs");
    const cuda::DeviceBuffer<std::uint64_t> c_block_keys(memory_, num_pairs, "C block keys");
    const cuda::DeviceBuffer<std::uint32_t> offsets(memory_, num_pairs + 1, "offsets");
    const cuda::DeviceBuffer<std::uint32_t> num_c_blocks(memory_, 1, "count");
    const cuda::DeviceBuffer<std::byte> work(memory_, work_bytes, "work space");
    const cuda::PinnedBuffer<std::uint32_t> host_num_c_blocks(1);
    kernels::PairListBuffers buffers{.keys = {{keys.data(), keys.data() + num_pairs}},
                                     .pairs = {{pairs.data(), pairs.data() + num_pairs}},
                                     .c_block_keys = c_block_keys.data(),
                                     .offsets = offsets.data(),
                                     .num_c_blocks = num_c_blocks.data(),
                                     .host_num_c_blocks = host_num_c_blocks.data()};
    const kernels::Workspace space{.data = work.data(), .bytes = work.size()};
    const kernels::PanelPairs panel{.row_begin = row_begin,
                                    .num_rows = row_end - row_begin,
                                    .first_pair = first_pair,
                                    .num_pairs = num_pairs,
                                    .column_bits = kColumnBits};
    if (short_rows) {
      kernels::launch_list_short_rows(view(in_order), panel, max_row_pairs, buffers, space, stream_.get());
    } else {
      kernels::launch_list_pairs(view(in_order), panel, buffers, space, stream_.get());
    }
    const std::uint32_t count = cuda::fetch(num_c_blocks.data(), stream_);
    REQUIRE(count == host_num_c_blocks[0]);
    REQUIRE(count <= num_pairs);
    List list;
    list.pairs.resize(num_pairs);
    list.c_block_keys.resize(count);
    list.offsets.resize(count + std::size_t{1});
    static_assert(sizeof(kernels::BlockPair) == sizeof(list.pairs[0]));
    cuda::copy_async(reinterpret_cast<kernels::BlockPair*>(list.pairs.data()), buffers.pairs.front(), num_pairs,
                     stream_);
    cuda::copy_async(list.c_block_keys.data(), c_block_keys.data(), count, stream_);
    cuda::copy_async(list.offsets.data(), offsets.data(), list.offsets.size(), stream_);
    stream_.synchronize();
    return list;
  }

 private:
  template <class T>
  cuda::DeviceBuffer<T> upload(const std::vector<T>& values) {
    cuda::DeviceBuffer<T> buffer(memory_, values.size(), "structure");
    cuda::copy_async(buffer.data(), values.data(), values.size(), stream_);
    return buffer;
  }

  [[nodiscard]] kernels::ExpandView view(bool in_order) const {
    return {.a = {.num_rows = s_.num_rows(), .rows = nullptr, .offsets = a_offsets_.data(), .columns = nullptr},
            .b_rows = {.num_rows = static_cast<std::uint32_t>(s_.b_offsets.size() - 1),
                       .rows = nullptr,
                       .offsets = b_offsets_.data(),
                       .columns = b_inner_.data()},
            .b_row_index = slots_.data(),
            .pair_offsets = pair_offsets_.data(),
            .a_numbers = in_order ? nullptr : a_numbers_.data(),
            .b_numbers = in_order ? nullptr : b_numbers_.data()};
  }

  const Structure& s_;
  cuda::DeviceContext context_{0};
  cuda::DeviceGuard guard_{0};
  cuda::Stream stream_{context_};
  cuda::DeviceMemory memory_{stream_, std::uint64_t{1} << 30};
  cuda::DeviceBuffer<std::uint32_t> a_offsets_ = upload(s_.a_offsets);
  cuda::DeviceBuffer<std::uint32_t> slots_ = upload(s_.slots);
  cuda::DeviceBuffer<std::uint32_t> b_offsets_ = upload(s_.b_offsets);
  cuda::DeviceBuffer<std::uint32_t> b_inner_ = upload(s_.b_inner);
  cuda::DeviceBuffer<std::uint32_t> a_numbers_ = upload(s_.a_numbers);
  cuda::DeviceBuffer<std::uint32_t> b_numbers_ = upload(s_.b_numbers);
  cuda::DeviceBuffer<std::uint64_t> pair_offsets_ = upload(s_.pair_offsets);
};

/// Both listings of all rows, and of some of them, with the exact weight of the longest row and with a bound.
void check_listings(const Structure& s, std::uint64_t max_row_pairs) {
  DeviceStructure device(s);
  const std::uint32_t rows = s.num_rows();
  for (const auto& [begin, end] : {std::pair{0u, rows}, std::pair{rows / 3, rows - rows / 4}}) {
    if (s.pairs_before(begin) == s.pairs_before(end)) continue;  // no panel
    for (const bool in_order : {true, false}) {
      INFO("rows " << begin << " to " << end << " of " << rows << ", max_row_pairs " << max_row_pairs << ", in order "
                   << in_order);
      const List expected = expected_list(s, begin, end, in_order);
      REQUIRE((device.list(begin, end, in_order, false, max_row_pairs) == expected));
      REQUIRE((device.list(begin, end, in_order, true, max_row_pairs) == expected));
      REQUIRE((device.list(begin, end, in_order, true, kernels::kMaxShortRowPairs) == expected));
    }
  }
}

std::vector<std::uint32_t> random_weights(std::size_t count, std::uint32_t most, unsigned empty_of_8,
                                          std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> weights(count);
  for (auto& weight : weights) {
    weight = random() % 8 < empty_of_8 ? 0 : 1 + static_cast<std::uint32_t>(random() % most);
  }
  return weights;
}

}  // namespace

TEST_CASE("both listings give the pairs in the order of a stable sort") {
  for (const std::uint32_t most : {1u, 2u, 31u, 32u, 33u, 60u, 255u, 1024u}) {
    for (const unsigned empty_of_8 : {0u, 4u, 7u}) {
      for (const std::uint32_t num_columns : {1200u, kNumColumns}) {
        const std::uint32_t max_length = std::min(most, most % 2 == 0 ? 7u : 1000u);
        check_listings(structure_of(random_weights(40'000 / most + 10, most, empty_of_8, most), max_length, num_columns,
                                    most + empty_of_8),
                       most);
      }
    }
  }
}

TEST_CASE("small listings: few pairs, full windows, very many rows without pairs") {
  check_listings(structure_of({1}, 1, 1, 1), 1);
  check_listings(structure_of({1024}, 300, 1000, 2), 1024);
  check_listings(structure_of({1024, 1024, 1024, 1, 1023, 1024}, 1000, 2000, 3), 1024);
  check_listings(structure_of({512, 512, 512, 512, 0, 0, 512, 512}, 100, 200, 4), 512);
  check_listings(structure_of(std::vector<std::uint32_t>(5000, 1), 1, 100, 5), 1);
  // More blocks of A in one window than its threads visit one by one.
  std::vector<std::uint32_t> lonely(100'000, 0);
  lonely[70'000] = 5;
  check_listings(structure_of(lonely, 3, 10, 6), 5);
  for (std::uint32_t row = 20'000; row < 60'000; row += 11) lonely[row] = 1 + row % 7;
  lonely.back() = 900;
  check_listings(structure_of(lonely, 40, kNumColumns, 7), 900);
}

TEST_CASE("products with rows of every weight around the limit of short rows") {
  constexpr std::uint32_t kSide = 20'000;
  for (const std::uint32_t m : {4u, 8u}) {
    for (const std::uint32_t max_row_pairs :
         {1u, kernels::kShortRowPairs - 1, kernels::kShortRowPairs, kernels::kShortRowPairs + 1, 1025u}) {
      test::MatrixBuilder a(kSide, m, max_row_pairs);
      test::MatrixBuilder b(kSide, m, max_row_pairs + 1);
      // Row `bit` of B has 2^bit blocks, so that the bits of a weight name the blocks of a row of A.
      for (std::uint32_t bit = 0; bit <= 10; ++bit) {
        for (std::uint32_t x = 0; x < 1u << bit; ++x) b.add_random(bit, x * (bit + 1) % 1531, 2047);
      }
      std::vector<std::uint32_t> weights = random_weights(40, std::min(max_row_pairs, 300u), 3, m);
      weights[7] = weights[8] = weights[30] = max_row_pairs;
      for (std::uint32_t row = 0; row < weights.size(); ++row) {
        for (std::uint32_t bit = 0; bit <= 10; ++bit) {
          if ((weights[row] >> bit & 1) != 0) a.add_random(row * 17, bit, test::kFullRange);
        }
        a.add_random(row * 17, 100 + row, 9);  // matches nothing
        for (std::uint32_t x = 1; x < 5; ++x) a.add_random(row * 17 + x, 200 + x, 9);
      }
      const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
      for (const std::string kernel : {"rows", "pair-list"}) {
        INFO("m " << m << ", max_row_pairs " << max_row_pairs << ", kernel " << kernel);
        REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu(kernel)) == expected));
      }
    }
  }
}

TEST_CASE("short rows that are counted in runs") {
  constexpr std::uint32_t kSide = 150'000;  // more rows than runs
  test::MatrixBuilder a(kSide, 4, 1);
  test::MatrixBuilder b(kSide, 4, 2);
  for (std::uint32_t x = 0; x < 200; ++x) b.add_random(0, x * 700, 2047);
  for (std::uint32_t t = 1; t < 50; ++t) b.add_random(t, t, 2047);
  for (std::uint32_t row = 0; row < kSide; ++row) {
    a.add_random(row, row % 30'000 < 4 ? 0 : 1 + row % 49,
                 2047);  // a run of long rows has more than kShortRowPairs
    if (row % 3 == 0) a.add_random(row, 50 + row % 100, 2047);
  }
  const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
  for (const std::string kernel : {"rows", "pair-list"}) {
    INFO("kernel " << kernel);
    REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu(kernel)) == expected));
  }
}

TEST_CASE("many listed panels give the bytes of one") {
  constexpr std::uint64_t kLimit = 74u << 20;  // room for the operands and about 5,000 pairs
  const BlockMatrix a = test::random_matrix(8 * 20'000, 8, 20'000, 65535, 1);
  const BlockMatrix b = test::random_matrix(8 * 20'000, 8, 20'000, 65535, 2);
  const ProductMatrix expected = test::oracle_multiply(a, b);
  for (const std::string kernel : {"rows", "pair-list"}) {
    Options options = on_gpu(kernel);
    options.memory_limit_bytes = kLimit;
    Report report;
    INFO("kernel " << kernel);
    REQUIRE((multiply(a, b, options, &report) == expected));
    CHECK(report.num_panels > 1);
    CHECK(report.peak_device_bytes <= kLimit);
    CHECK(report.peak_device_bytes <= report.plan.device_need_bytes);
  }
}

TEST_CASE("small listed products: rows around the limit of short rows") {
  for (const std::uint32_t m : {4u, 8u}) {
    test::MatrixBuilder a(1000, m, 1);
    test::MatrixBuilder b(1000, m, 2);
    for (std::uint32_t x = 0; x < kernels::kShortRowPairs; ++x) b.add_random(0, x * 3, 2047);
    b.add_random(1, 5, 2047);
    b.add_random(2, 999, 2047);
    for (const std::uint32_t row : {3u, 4u, 500u, 999u}) {
      if (row != 4) a.add_random(row, 0, test::kFullRange);
      a.add_random(row, 2, test::kFullRange);
      if (row == 500) a.add_random(row, 1, test::kFullRange);
      a.add_random(row, 700, 9);  // matches nothing
    }
    for (std::uint32_t row = 10; row < 90; ++row) a.add_random(row, 1 + row % 2, 9);
    const ProductMatrix expected = test::oracle_multiply(a.matrix(), b.matrix());
    for (const std::string kernel : {"rows", "pair-list"}) {
      INFO("m " << m << ", kernel " << kernel);
      REQUIRE((multiply(a.matrix(), b.matrix(), on_gpu(kernel)) == expected));
    }
  }
}
