// Several devices that take parts of the inner dimension instead of rows of C: where the parts end, what that needs and
// how long it takes. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/execution.hpp"

namespace spmm::plan {

/// Indices of runs of records all over one operand.
struct SampledIndices {
  std::vector<std::uint32_t> rows{};     ///< block rows, each as often as runs have it
  std::vector<std::uint32_t> columns{};  ///< the same of block columns
  std::vector<std::uint32_t> inner{};    ///< the inner one of each record
  bool is_whole = false;                 ///< the runs are all records
};

/// Estimates how many different numbers there are, from those that runs of records have: each number that one run alone
/// has speaks for others that none has (Chao's lower bound). Records of a run may well be neighbours in the matrix.
/// Values: numbers ascending, each as often as runs have it; `most` that there can be.
double estimate_distinct(std::span<const std::uint32_t> numbers, bool is_whole, std::uint64_t most);

/// The sample of a product. Values: expected of the headers; lists in any order.
InnerSample make_inner_sample(const Statistics& expected, SampledIndices a, SampledIndices b);

/// First inner block indices of the parts 1 .., so that all have about as many records.
std::vector<std::uint32_t> inner_borders(const InnerSample& sample, std::uint32_t num_parts);

/// What the sample knows better than headers.
Statistics with_sample(Statistics expected, const InnerSample& sample);

/// Bytes of records that a reader takes at a time and parts into half a slot.
inline constexpr std::uint64_t kInnerChunkBytes = 2u << 20;
/// Threads that read and part records: more than these wait for the links and for memory.
unsigned inner_readers(unsigned num_threads);

/// Partial products are kept in arrays of this size: 1 MB on small pages took 170 ms for 0.28 GB on each of two
/// devices.
inline constexpr std::uint64_t kPartialChunkBytes = 32u << 20;

/// Buffers that the sum of partial products goes to the sink through.
inline constexpr std::uint64_t kSumBufferBytes = 1u << 20;
constexpr std::uint64_t num_sum_buffers(unsigned num_threads) {
  return 2 * std::uint64_t{num_threads == 0 ? 1 : num_threads} + 2;
}

/// The product divided along the inner dimension among all devices of the limits, each with a partial product of all of
/// C in host memory; `at_once` decides about one part. Refused where a device does not fit its part, or the host the
/// partial products.
/// Values: limits.inner is set, s expected.
Execution decide_inner(const Statistics& s, const Limits& limits,
                       const std::function<Execution(const Statistics&, const Limits&)>& at_once);

/// The limits of one device of several that have a part each.
Limits limits_of_part(Limits limits);

}  // namespace spmm::plan
