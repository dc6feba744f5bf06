#include "plan/inner_parts.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/tuning.hpp"
#include "plan/run_models.hpp"
#include "spmm/types.hpp"

namespace spmm::plan {
namespace {

constexpr unsigned kMaxReaders = 32;
constexpr std::size_t kMaxInner = 4096;  // borders are no finer
/// Room for partial products beyond what is expected: the estimate is a lower bound.
constexpr double kPartialMargin = 1.5;
constexpr std::uint64_t kPartialAllowance = 2 * kPartialChunkBytes;

double distinct_of(std::vector<std::uint32_t>& numbers, bool is_whole, const MatrixHeader& header) {
  std::sort(numbers.begin(), numbers.end());
  return estimate_distinct(numbers, is_whole, std::min(header.num_blocks, header.blocks_per_side()));
}

/// Partial products are kept on the host whole.
std::uint64_t partial_bytes(const Statistics& s) {
  const double pairs_of_part = s.num_pairs;  // a part may have them all
  const double c_blocks = std::min(s.num_c_blocks * kPartialMargin, pairs_of_part);
  const double bytes = c_blocks * static_cast<double>(output_record_bytes(s.m()));
  constexpr double kMost = 1e18;
  return static_cast<std::uint64_t>(std::min(bytes, kMost)) + kPartialAllowance;
}

MatrixHeader part_of(MatrixHeader header, std::uint32_t num_parts) {
  header.num_blocks = (header.num_blocks + num_parts - 1) / num_parts;
  return header;
}

}  // namespace

double estimate_distinct(std::span<const std::uint32_t> numbers, bool is_whole, std::uint64_t most) {
  double seen = 0;
  double once = 0;
  double twice = 0;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const auto end = std::find_if(at, numbers.end(), [&](std::uint32_t other) { return other != *at; });
    once += end - at == 1 ? 1 : 0;
    twice += end - at == 2 ? 1 : 0;
    seen += 1;
    at = end;
  }
  if (is_whole) return seen;
  const double all = seen + once * std::max(0.0, once - 1) / (2 * (twice + 1));
  return std::min(all, static_cast<double>(most));
}

InnerSample make_inner_sample(const Statistics& expected, SampledIndices a, SampledIndices b) {
  const double c_rows = distinct_of(a.rows, a.is_whole, expected.a);
  const double c_columns = distinct_of(b.columns, b.is_whole, expected.b);
  const double used =
      std::max(distinct_of(a.columns, a.is_whole, expected.a), distinct_of(b.rows, b.is_whole, expected.b));
  InnerSample sample;
  sample.pairs = used < 1 ? 0 : static_cast<double>(expected.a.num_blocks) * expected.b.num_blocks / used;
  sample.c_rows = c_rows;
  sample.c_columns = c_columns;
  sample.c_blocks = std::min(c_rows * c_columns, sample.pairs);
  std::vector<std::uint32_t> inner = std::move(a.inner);
  inner.insert(inner.end(), b.inner.begin(), b.inner.end());
  std::sort(inner.begin(), inner.end());
  const std::size_t step = inner.size() / kMaxInner + 1;
  for (std::size_t x = step / 2; x < inner.size(); x += step) sample.inner.push_back(inner[x]);
  return sample;
}

std::vector<std::uint32_t> inner_borders(const InnerSample& sample, std::uint32_t num_parts) {
  std::vector<std::uint32_t> borders;
  for (std::uint64_t p = 1; p < num_parts; ++p) {
    borders.push_back(sample.inner.empty() ? 0 : sample.inner[sample.inner.size() * p / num_parts]);
  }
  return borders;
}

Statistics with_sample(Statistics expected, const InnerSample& sample) {
  expected.num_pairs = sample.pairs;
  expected.c_rows = sample.c_rows;
  expected.a_rows = std::min(expected.a_rows, static_cast<std::uint64_t>(std::ceil(sample.c_rows)));
  expected.c_columns_end = static_cast<std::uint32_t>(std::ceil(sample.c_columns));
  expected.num_c_blocks = std::min(expected.num_c_blocks, sample.c_blocks);
  return expected;
}

unsigned inner_readers(unsigned num_threads) {
  return std::clamp(num_threads, 1U, kMaxReaders);
}

Limits limits_of_part(Limits limits) {
  limits.device->bytes = limits.device_bytes();
  limits.device->has_dense_tensor = limits.has_dense_tensor();
  limits.more_devices.clear();
  limits.inner.reset();
  return limits;
}

Execution decide_inner(const Statistics& s, const Limits& limits,
                       const std::function<Execution(const Statistics&, const Limits&)>& at_once) {
  const std::uint32_t num_parts = limits.num_devices();
  const Limits of_part = limits_of_part(limits);
  // A part may have any share of the records: arrays are allocated for all of them.
  const Execution whole = at_once(s, of_part);
  if (whole.is_refused()) return whole;
  Statistics part = s;
  part.a = part_of(s.a, num_parts);
  part.b = part_of(s.b, num_parts);
  part.num_pairs /= num_parts;
  part.num_c_blocks = std::min(s.num_c_blocks, part.num_pairs);
  Execution e = at_once(part, of_part);
  if (e.is_refused()) return e;
  e.device_need_bytes = std::max(e.device_need_bytes, whole.device_need_bytes);
  e.inner_borders = inner_borders(*limits.inner, num_parts);
  e.inner_division = true;
  e.partial_bytes = partial_bytes(s);
  const std::uint64_t reading = inner_readers(e.num_threads) * std::max(kInnerChunkBytes, input_record_bytes(s.m()));
  const std::uint64_t adding = num_sum_buffers(e.num_threads) * std::max(kSumBufferBytes, output_record_bytes(s.m()));
  e.host_need_bytes = num_parts * (e.host_need_bytes + e.partial_bytes) + std::max(reading, adding);
  if (e.host_need_bytes > limits.host_bytes) {
    e.refusal = {.kind = Refusal::Kind::memory, .what = kHostMemory, .need_bytes = e.host_need_bytes};
  }
  e.expected_pairs = s.num_pairs;
  e.expected_output_blocks = s.num_c_blocks;
  e.expected_panels *= num_parts;
  e.predicted_s = inner_seconds(e, s, limits) + start_seconds(e, limits);
  return e;
}

}  // namespace spmm::plan
