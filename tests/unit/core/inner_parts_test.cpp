// When several devices take parts of the inner dimension, and where these end.
#include "plan/inner_parts.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "plan/decide.hpp"
#include "plan/run_models.hpp"
#include "support/catch.hpp"
#include "unit/core/plan_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::plan;

/// Records (row, inner) drawn evenly, in runs as a sample has them.
SampledIndices drawn(std::uint32_t rows, std::uint32_t inner, std::size_t num_runs, bool is_b, std::uint32_t seed) {
  std::minstd_rand random(seed);
  SampledIndices sample;
  for (std::size_t x = 0; x < num_runs; ++x) {
    const std::uint32_t row = static_cast<std::uint32_t>(random() % rows);
    const std::uint32_t at = static_cast<std::uint32_t>(random() % inner);
    sample.rows.push_back(is_b ? at : row);
    sample.columns.push_back(is_b ? row : at);
    sample.inner.push_back(at);
  }
  return sample;
}

Statistics of_headers(std::uint32_t n, std::uint32_t m, std::uint32_t blocks) {
  const MatrixHeader header{.n = n, .m = m, .num_blocks = blocks};
  return expected_statistics(header, header);
}

/// A machine with several equal GPUs.
Limits several_gpus(std::uint32_t num) {
  Limits limits = test::large_machine();
  limits.num_threads = limits.num_cores = 32;
  limits.shares_always = true;
  for (std::uint32_t d = 1; d < num; ++d) limits.more_devices.push_back(*limits.device);
  return limits;
}

/// 100 million records each of A and B, C of 1024 x 1024 blocks.
struct Gram {
  Statistics expected = of_headers(33'554'432, 8, 100'000'000);
  InnerSample sample =
      make_inner_sample(expected, drawn(1024, 4'194'304, 40'000, false, 1), drawn(1024, 4'194'304, 40'000, true, 2));
};

}  // namespace

TEST_CASE("inner parts: how many different numbers there are is exact of all records, and estimated of some") {
  CHECK(estimate_distinct({}, true, 10) == 0);
  CHECK(estimate_distinct({}, false, 10) == 0);
  const std::vector<std::uint32_t> few{1, 1, 2, 3, 3, 3};
  CHECK(estimate_distinct(few, true, 10) == 3);
  std::minstd_rand random(1);
  for (const std::uint32_t all : {100u, 1000u, 3000u}) {
    std::vector<std::uint32_t> numbers;
    for (int x = 0; x < 2000; ++x) numbers.push_back(static_cast<std::uint32_t>(random() % all));
    std::sort(numbers.begin(), numbers.end());
    CHECK(estimate_distinct(numbers, false, 1u << 30) > 0.85 * all);
    CHECK(estimate_distinct(numbers, false, 1u << 30) < 1.15 * all);
  }
  std::vector<std::uint32_t> all_different(1000);
  std::iota(all_different.begin(), all_different.end(), 0u);
  CHECK(estimate_distinct(all_different, false, 1u << 30) > 100'000);
  CHECK(estimate_distinct(all_different, false, 1500) == 1500);
}

TEST_CASE("inner parts: borders part the records evenly, and every index has one part") {
  const Gram gram;
  for (const std::uint32_t num : {1u, 2u, 3u, 8u}) {
    const std::vector<std::uint32_t> borders = inner_borders(gram.sample, num);
    REQUIRE(borders.size() == num - 1);
    CHECK(std::is_sorted(borders.begin(), borders.end()));
    for (std::uint32_t p = 1; p < num; ++p) {
      CHECK(borders[p - 1] > 4'194'304.0 * (p / double(num) - 0.02));
      CHECK(borders[p - 1] < 4'194'304.0 * (p / double(num) + 0.02));
    }
  }
  CHECK(inner_borders(InnerSample{}, 3) == std::vector<std::uint32_t>{0, 0});
}

TEST_CASE("inner parts: a Gram-like product is divided along the inner dimension, and predicted faster") {
  const Gram gram;
  CHECK(gram.sample.c_blocks > 0.9 * 1024 * 1024);
  CHECK(gram.sample.c_blocks < 1.1 * 1024 * 1024);
  Limits limits = several_gpus(2);
  limits.inner = gram.sample;
  const Execution e = decide(gram.expected, limits);
  REQUIRE_FALSE(e.is_refused());
  CHECK(e.divides_inner());
  CHECK(e.inner_division);
  CHECK(e.devices.size() == 2);
  CHECK(e.partial_bytes >= 1024 * 1024 * output_record_bytes(8));
  CHECK(e.host_need_bytes >= 2 * (e.partial_bytes + 8 * kernels::kRingSlotBytes) + 32 * kInnerChunkBytes);
  limits.division = DivisionWish::rows;
  const Execution rows = decide(gram.expected, limits);
  CHECK_FALSE(rows.divides_inner());
  CHECK(e.predicted_s < rows.predicted_s);
  limits.division = DivisionWish::faster;
  limits.shares_always = false;  // only where that ends clearly earlier than one device alone
  const double alone_s = [&] {
    Limits one = several_gpus(1);
    one.inner = gram.sample;
    return decide(gram.expected, one).predicted_s;
  }();
  CHECK(decide(gram.expected, limits).divides_inner() == (e.predicted_s < 0.9 * alone_s));
}

TEST_CASE("inner parts: few block rows of C cannot be shared by rows, but along the inner dimension") {
  Gram gram;
  gram.sample =
      make_inner_sample(gram.expected, drawn(1, 4'194'304, 40'000, false, 1), drawn(1024, 4'194'304, 40'000, true, 2));
  CHECK(gram.sample.c_rows == 1);
  Limits limits = several_gpus(4);
  limits.inner = gram.sample;
  const Execution e = decide(gram.expected, limits);
  CHECK(e.divides_inner());
  limits.division = DivisionWish::rows;
  const Execution rows = decide(gram.expected, limits);
  CHECK(e.predicted_ms < 0.5 * rows.predicted_ms);
  limits.more_devices.clear();
  CHECK(decide(gram.expected, limits).predicted_ms == Approx(rows.predicted_ms));  // the others have nothing to do
}

TEST_CASE("inner parts: not where partial products take longer than what they save") {
  const Statistics expected = of_headers(33'554'432, 8, 33'554'432);
  Limits limits = several_gpus(2);
  limits.inner =
      make_inner_sample(expected, drawn(1024, 4'194'304, 40'000, false, 1), drawn(1024, 4'194'304, 40'000, true, 2));
  CHECK_FALSE(decide(expected, limits).divides_inner());
}

TEST_CASE("inner parts: not without a sample, on one device, for a large C or without memory for partial products") {
  const Gram gram;
  Limits limits = several_gpus(2);
  CHECK_FALSE(decide(gram.expected, limits).divides_inner());
  limits.inner = gram.sample;
  limits.host_bytes = std::uint64_t{500} << 20;
  CHECK_FALSE(decide(gram.expected, limits).divides_inner());
  limits = several_gpus(1);
  limits.inner = gram.sample;
  CHECK_FALSE(decide(gram.expected, limits).divides_inner());
  limits = several_gpus(2);
  const Statistics even = of_headers(32'768, 8, 8'800'000);
  limits.inner = make_inner_sample(even, drawn(4096, 4096, 40'000, false, 1), drawn(4096, 4096, 40'000, true, 2));
  CHECK_FALSE(decide(even, limits).divides_inner());
  limits.division = DivisionWish::inner;
  CHECK(decide(even, limits).divides_inner());
}

TEST_CASE("inner parts: the exact decision of a part knows one device, with the memory that all have") {
  Limits limits = several_gpus(3);
  limits.more_devices[1].bytes = 1000;
  limits.more_devices[0].has_dense_tensor = false;
  limits.inner = InnerSample{};
  const Limits part = limits_of_part(limits);
  CHECK(part.num_devices() == 1);
  CHECK(part.device->bytes == 1000);
  CHECK_FALSE(part.device->has_dense_tensor);
  CHECK_FALSE(part.inner.has_value());
}
