#include "plan/models/host_models.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "plan/memory/host_bytes.hpp"
#include "plan/panels/tiles.hpp"
#include "spmm/saturate.hpp"

namespace spmm::plan {
namespace {

/// Rates of one thread.
/// Source: the multiply stage on one thread of a Zen 5 (1 MB second-level cache, busy neighbours), each instruction set
/// forced. Tiles: evenly spread blocks of side 1 to 3, 250 to 416,666 block columns, and stencils. Pairs: evenly spread
/// blocks of side 4 to 64, 1 and 4 pairs a C block, elements to 2,047 and to 65,535.
/// Nothing is measured on ARM. kPortable's multiply-adds: 1.9 a ns
/// on the Zen 5, 0.75 on a Xeon.
struct Rates {
  double pair_ns;          ///< row-merge: finding a pair that is added to a sum in memory; side 4 needs hardly any time
  double ordered_ns;       ///< the same of a pair that is ordered first
  double narrow_per_ns;    ///< row-merge: multiply-adds of packed blocks, narrow arithmetic
  double wide_per_ns;      ///< the same, wide
  double wide_pair_ns;     ///< and for each pair in addition, wide
  double tile_ns[3];       ///< row-merge of small blocks, m = 1, 2, 3: a block of A times a tile of B
  double wide_tile_ns[3];  ///< the same if sums may leave 32 bits
  double c_block_ns[3];    ///< the same: a block of the result, found and written
};

constexpr Rates kVnni{.pair_ns = 1.5,
                      .ordered_ns = 5,
                      .narrow_per_ns = 85,
                      .wide_per_ns = 42,
                      .wide_pair_ns = 6,
                      .tile_ns = {0.7, 1, 2},
                      .wide_tile_ns = {0.8, 2, 5},
                      .c_block_ns = {2.5, 2.75, 3}};
constexpr Rates kAvx2{.pair_ns = 1.5,
                      .ordered_ns = 5,
                      .narrow_per_ns = 42,
                      .wide_per_ns = 25,
                      .wide_pair_ns = 6,
                      .tile_ns = {1.2, 1.4, 2.6},
                      .wide_tile_ns = {1.3, 2.9, 8.5},
                      .c_block_ns = {3, 4, 9}};
constexpr Rates kPortable{.pair_ns = 20,
                          .ordered_ns = 20,
                          .narrow_per_ns = 1.3,
                          .wide_per_ns = 1.3,
                          .wide_pair_ns = 0,
                          .tile_ns = {2.2, 5, 8.5},
                          .wide_tile_ns = {9, 33, 83},
                          .c_block_ns = {4.8, 8, 21}};
// Row-merge, of one thread. Source: pairs, as above; records go to buffers that stay in the second-level cache.
// Fitted again to whole products of one thread of a Xeon with 300 MB of shared cache, and of a Zen 5.
constexpr double kSide4SummedNs = 0.6;     // instead of pair_ns
constexpr double kSide4WideNs = 2;         // instead of wide_pair_ns
constexpr double kSummedBlockNs = 1;       // a C block whose sums lie in memory
constexpr double kSide4BlockNs = 3;        // the same of side 4
constexpr double kSide4ColumnNs = 1;       // and each column, with or without one
constexpr double kOrderedBlockNs = 4;      // one whose pairs are ordered
constexpr double kNearCounters = 8192;     // of columns: as many stay in the first-level cache
constexpr double kFarCounterNs = 2;        // added to ordered_ns
constexpr double kStripsBlockNs = 15;      // the same above side 8
constexpr double kOutputByteNs = 0.02;     // of a record
constexpr double kLookupNs = 100;          // a block of A: the row of B lies elsewhere
constexpr double kCachedShare = 0.3;       // of it, where that is in a cache
constexpr double kCachedBytes = 32 << 20;  // of B: the rest of its blocks comes from memory, at so many ns a byte
constexpr double kUncachedByteNs = 0.09;
constexpr double kNearRowBytes = 1 << 20;  // of the blocks of B that a row meets
constexpr double kNsPerMs = 1e6;
constexpr double kReferenceTermsPerMs = 3e5;

const Rates& rates_of(Isa isa) {
  return isa == Isa::avx512_vnni ? kVnni : isa == Isa::portable ? kPortable : kAvx2;
}

/// Work of one thread, done by several of them with a queue between them and the sink.
/// Values: unit_bytes = output of a piece of work that one worker takes. Where it is more than a buffer holds, the
/// worker waits with each further buffer until all older pieces are through: that part is not done in parallel.
double shared_ms(const Problem& p, unsigned num_threads, std::uint64_t buffer_bytes, double serial_ms,
                 double unit_bytes) {
  const auto& [s, limits] = p;
  // A buffer on its way to the sink: a lock, a wake-up, a system call. Measured with 16 threads on two cores and
  // buffers of one record (35 s for 1.4e6 of them). With a core for each thread less: an arrow of 30,000 block rows,
  // 15,500 buffers of 4 MB, takes 0.6 s as a whole process on 16 cores.
  const double append_ms = num_threads > limits.num_cores ? 0.02 : 0.005;
  const double threads = parallel_speed(num_threads, limits);
  const double buffers_per_unit = std::max(1.0, unit_bytes / static_cast<double>(buffer_bytes));
  const double parallel = 1 / buffers_per_unit;
  const double output_bytes = likely_c_blocks(s) * static_cast<double>(output_record_bytes(s.m()));
  return serial_ms * (1 - parallel + parallel / threads) + output_bytes / static_cast<double>(buffer_bytes) * append_ms;
}

double stored_rows(const Statistics& s) {
  return static_cast<double>(std::max<std::uint64_t>(1, s.a_rows));
}

/// Multiply-adds of a pair as kernels make them: in whole registers of columns, without rows that are padding.
double packed_terms(const Problem& p) {
  const auto& [s, limits] = p;
  const PackedShape shape = packed_shape(limits.isa, s.m());
  if (shape.packing == Packing::rows || s.m() <= 4) return static_cast<double>(shape.a_elements()) * shape.cols;
  const std::uint32_t cols = std::max<std::uint32_t>(8, shape.cols);
  return static_cast<double>(s.m() * (s.m() + s.m() % 2)) * cols;
}

/// Sampled rows, or a row of the average length.
std::vector<RowShape> row_shapes(const Statistics& s) {
  if (!s.rows.empty()) return s.rows;
  return {{.pairs = s.num_pairs / stored_rows(s), .c_blocks = likely_c_blocks(s) / stored_rows(s)}};
}

constexpr std::uint32_t kWide = 1u << 15;  // elements from here on need wide arithmetic

/// Whether packed blocks need wide arithmetic: also if the product of two blocks may leave 32 bits.
bool needs_wide_sums(const Statistics& s) {
  const std::uint64_t largest = s.max_element;
  return largest >= kWide || largest * largest * s.m() > 0xFFFF'FFFFu;
}

/// Rows of C with wide arithmetic, as a share: all of them, if not only single large elements ask for it.
double wide_rows(const Statistics& s) {
  return !needs_wide_sums(s) ? 0 : s.max_element >= kWide ? s.wide_share : 1;
}

/// The share of the pairs that meet a C block for the first time. Rows of A that meet the same C blocks again and again
/// meet the same rows of B, too: those are in a cache.
double new_share(const Statistics& s) {
  return std::min(1.0, likely_c_blocks(s) / std::max(1.0, s.num_pairs));
}

/// C blocks as a share of those that as many pairs in each row would have if their columns were evenly spread. Where it
/// is less, pairs meet the same columns again and again, whose slots are in a cache.
double evenness(const Statistics& s) {
  const double row_pairs = s.num_pairs / stored_rows(s);
  const double even = s.nb() * -std::expm1(-row_pairs / s.nb());
  return std::min(1.0, likely_c_blocks(s) / (stored_rows(s) * std::max(1e-9, even)));
}

/// row-merge: a pair of a row and what its C blocks cost for each pair, without the products.
/// Rows are summed in memory (cpu/rows/accumulator.hpp), or their pairs are ordered.
double found_pair_ns(const Problem& p, const RowShape& row) {
  const auto& [s, limits] = p;
  const Rates& rates = rates_of(limits.isa);
  const double c_blocks = row.c_blocks / std::max(1.0, row.pairs);
  if (row.pairs >= least_summed_pairs(limits.isa, s.m()) * static_cast<double>(s.nb())) {
    if (s.m() > 4) return rates.pair_ns + c_blocks * kSummedBlockNs;
    return kSide4SummedNs + c_blocks * kSide4BlockNs + s.nb() / std::max(1.0, row.pairs) * kSide4ColumnNs;
  }
  const double far_counters = 1 - std::min(1.0, kNearCounters / s.nb());
  return rates.ordered_ns + far_counters * kFarCounterNs + c_blocks * (s.m() <= 8 ? kOrderedBlockNs : kStripsBlockNs);
}

/// row-merge: a pair of a row, when the products of its blocks take terms_ns, until they are in the result.
double pair_ns_of(const Problem& p, const RowShape& row, double terms_ns) {
  const Statistics& s = p.s;
  const double b_block_bytes =
      sizeof(std::uint16_t) * static_cast<double>(packed_shape(p.limits.isa, s.m()).b_elements());
  // If the blocks of B that a row meets exceed the core's cache, the row reads them from the shared one.
  const double far = 1 - std::min(1.0, kNearRowBytes / std::max(1.0, row.pairs * b_block_bytes));
  return found_pair_ns(p, row) + std::max(terms_ns, far * b_block_bytes * kUncachedByteNs);
}

/// row-merge: larger blocks.
double pairs_ns(const Problem& p) {
  const auto& [s, limits] = p;
  const Rates& rates = rates_of(limits.isa);
  const double wide = wide_rows(s);
  const double b_block_bytes = static_cast<double>(input_record_bytes(s.m()));
  const double uncached = 1 - std::min(1.0, kCachedBytes / std::max(1.0, s.b.num_blocks * b_block_bytes));
  const double far_share = uncached * new_share(s);
  const double wide_ns = (s.m() == 4 ? std::min(kSide4WideNs, rates.wide_pair_ns) : rates.wide_pair_ns) +
                         packed_terms(p) / rates.wide_per_ns;
  const double terms_ns = wide * wide_ns + (1 - wide) * packed_terms(p) / rates.narrow_per_ns;
  const std::vector<RowShape> rows = row_shapes(s);
  double pair_ns = far_share * b_block_bytes * kUncachedByteNs;
  for (const RowShape& row : rows) pair_ns += pair_ns_of(p, row, terms_ns) / static_cast<double>(rows.size());
  const double output_ns = kOutputByteNs * static_cast<double>(output_record_bytes(s.m()));
  const double lookup_ns = kLookupNs * std::max(kCachedShare, far_share);
  return s.num_pairs * pair_ns + likely_c_blocks(s) * output_ns + s.a.num_blocks * lookup_ns;
}

/// Slots of an accumulator that are not in the first-level cache, by the size of the accumulator.
struct FarSlots {
  double pair_ns;     ///< a tile of B that is added
  double c_block_ns;  ///< a C block that is found and written, far from the next one
};
/// Source: evenly spread blocks of side 1 to 3, 1 to 11 pairs a C block, one thread of a Xeon; stencils, whose rows
/// meet the slots of the rows before them, show none of it.
FarSlots far_slots(const Statistics& s) {
  const TileShape shape = wide_tile(s.m());
  const double bytes = static_cast<double>(shape.window(s.nb(), s.b.num_blocks)) * (shape.sums * sizeof(std::uint32_t));
  if (bytes <= 40e3) return {.pair_ns = 0, .c_block_ns = 0};
  if (bytes <= 250e3) return {.pair_ns = 2, .c_block_ns = 2};
  if (bytes <= 600e3) return {.pair_ns = 2, .c_block_ns = 8};
  return bytes <= 2e6 ? FarSlots{.pair_ns = 2, .c_block_ns = 13} : FarSlots{.pair_ns = 6, .c_block_ns = 15};
}

/// row-merge: small blocks summed in tiles.
double tiles_ns(const Problem& p) {
  const auto& [s, limits] = p;
  constexpr double kTileLookupNs = 60;  // a block of A: the row of B lies elsewhere
  const Rates& rates = rates_of(limits.isa);
  const double c_blocks = likely_c_blocks(s);
  const double largest_sum = s.num_pairs / std::max(1.0, c_blocks) * s.m() * s.max_element * s.max_element;
  const double tile_ns = largest_sum >= kMaxVal ? rates.wide_tile_ns[s.m() - 1] : rates.tile_ns[s.m() - 1];
  const double new_to_both = new_share(s) * new_share(s);  // neither in the row of C before nor in the rows around it
  const FarSlots far = far_slots(s);
  const double even = evenness(s);
  const double empty = 1 - std::min(1.0, c_blocks / (stored_rows(s) * s.nb()));
  return s.tile_pairs * (tile_ns + std::pow(even, 3) * far.pair_ns) +
         c_blocks * (rates.c_block_ns[s.m() - 1] + even * even * empty * far.c_block_ns) +
         new_to_both * s.a.num_blocks * kTileLookupNs;
}

}  // namespace

double likely_c_blocks(const Statistics& s) {
  return s.likely_c_blocks > 0 ? std::min(s.likely_c_blocks, s.num_c_blocks) : s.num_c_blocks;
}

/// Source: even products of 2,048 block columns, one thread of a Xeon: with 1, 2 and 4 pairs a column sums take, over
/// ordered pairs, 1.0, 0.89 and 0.81 (side 5), 1.17, 1.03 and 0.81 (6), 1.2, 1.1 and 0.92 (7), 1.2, 1.0 and 0.96 (8).
/// Side 4 with 0.4 pairs, two threads of a Zen 5, over products that went straight into records: 0.94 (AVX2 0.95).
double least_summed_pairs(Isa isa, std::uint32_t m) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  constexpr double kLeast[] = {0.4, 1.5, 2.5, 3, 2};  // sides 4 to 8
  return isa == Isa::portable || m < 4 || m > 8 ? kNever : kLeast[m - 4];
}

double parallel_speed(unsigned num_threads, const Limits& limits) {
  // S2 to /dev/null with 2, 4, 8 and 16 threads: 1.7, 3.2, 6.3 and 10 times as fast as with one.
  constexpr double kExponent = 0.85;
  return std::pow(std::max(1.0, static_cast<double>(std::min(num_threads, limits.num_cores))), kExponent);
}

double row_merge_ms(const Problem& p, unsigned num_threads, std::uint64_t buffer_bytes) {
  constexpr double kSmallestPartPairs = 1 << 13;  // a row is cut into parts of at least so many pairs
  constexpr double kFarByteNs = 0.08;             // of a record in a buffer that leaves the cache
  const double output_bytes = likely_c_blocks(p.s) * static_cast<double>(output_record_bytes(p.s.m()));
  const double ns = (sums_in_tiles(p.s.m()) ? tiles_ns(p) : pairs_ns(p)) +
                    (buffer_bytes > kNearBufferBytes ? output_bytes * kFarByteNs : 0);
  const double rows = stored_rows(p.s);
  const double row_bytes = output_bytes / rows;
  const double parts = std::max(1.0, p.s.num_pairs / rows / kSmallestPartPairs);
  return shared_ms(p, num_threads, buffer_bytes, ns / kNsPerMs, row_bytes / parts);
}

double reference_ms(const Problem& p, unsigned, std::uint64_t buffer_bytes) {
  const double m = p.s.m();
  return shared_ms(p, 1, buffer_bytes, p.s.num_pairs * m * m * m / kReferenceTermsPerMs, 0);
}

}  // namespace spmm::plan
