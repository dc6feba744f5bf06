// --verify must notice every kind of wrong result.
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/failing_memory.hpp"
#include "support/oracle.hpp"
#include "support/wrapped_calls.hpp"
#include "verify/sample_verifier.hpp"

namespace {

using namespace spmm;

constexpr std::uint32_t kSide = 4;

/// Sends a product through a VerifyingSink that samples everything, and checks.
std::uint64_t verify(const BlockMatrix& a, const BlockMatrix& b, const ProductMatrix& product,
                     const VerifySettings& settings) {
  const auto source_a = make_memory_source(a, "A");
  const auto source_b = make_memory_source(b, "B");
  ProductMatrix copy;
  const auto memory = make_memory_sink(copy);
  memory->expect(product.m, 0);
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .cancel = nullptr};
  VerifyingSink sink(*memory, *source_a, *source_b, settings, run);
  const std::uint64_t record = output_record_bytes(product.m);
  std::vector<std::byte> bytes(product.index.size() * record);
  for (std::size_t x = 0; x < product.index.size(); ++x) {
    std::memcpy(bytes.data() + x * record, &product.index[x], kIndexBytes);
    std::memcpy(bytes.data() + x * record + kIndexBytes, product.block(x), record - kIndexBytes);
  }
  // Two slices, so that absent candidates are sought across a border.
  const std::size_t half = product.index.size() / 2 * record;
  sink.append({bytes.data(), half}, [] {});
  sink.append({bytes.data() + half, bytes.size() - half}, [] {});
  return sink.check(run);
}

std::uint64_t verify(const BlockMatrix& a, const BlockMatrix& b, const ProductMatrix& product, std::uint64_t count) {
  return verify(a, b, product, verify_settings(count, 1, product.m, 0));
}

}  // namespace

TEST_CASE("verify accepts the right product and counts what it checked") {
  const BlockMatrix a = test::random_matrix(kSide * 40, kSide, 150, 65535, 1);
  const BlockMatrix b = test::random_matrix(kSide * 40, kSide, 150, 65535, 2);
  const ProductMatrix product = test::oracle_multiply(a, b);
  CHECK(verify(a, b, product, 10) > 10);
  CHECK(verify(a, b, product, 10) <= 20);
  CHECK(verify(a, b, product, 100'000) >= product.index.size());
}

TEST_CASE("verify notices one wrong bit, a block at the wrong place and a missing block") {
  const BlockMatrix a = test::random_matrix(kSide * 20, kSide, 80, 65535, 1);
  const BlockMatrix b = test::random_matrix(kSide * 20, kSide, 80, 65535, 2);
  const ProductMatrix right = test::oracle_multiply(a, b);
  constexpr std::uint64_t kAll = 2000;
  ProductMatrix bit = right;
  bit.values[right.values.size() / 2] ^= 1;
  CHECK_THROWS_AS(verify(a, b, bit, kAll), VerifyError);
  ProductMatrix extra = right;
  for (std::size_t e = 0; e < kSide * kSide; ++e) extra.values[e] = 0;
  CHECK_THROWS_AS(verify(a, b, extra, kAll), VerifyError);
  ProductMatrix missing = right;
  missing.index.erase(missing.index.begin());
  missing.values.erase(missing.values.begin(), missing.values.begin() + kSide * kSide);
  CHECK_THROWS_AS(verify(a, b, missing, kAll), VerifyError);
}

TEST_CASE("verify of an empty product") {
  const BlockMatrix none{.n = 16, .m = kSide, .index = {}, .values = {}};
  CHECK(verify(none, none, {.n = 16, .m = kSide, .index = {}, .values = {}}, 5) == 0);
}

TEST_CASE("verify bounds what is asked for by the product and by memory") {
  const BlockMatrix a = test::random_matrix(kSide * 20, kSide, 80, 65535, 1);
  const BlockMatrix b = test::random_matrix(kSide * 20, kSide, 80, 65535, 2);
  const ProductMatrix right = test::oracle_multiply(a, b);
  ProductMatrix missing = right;
  missing.index.pop_back();
  missing.values.resize(missing.values.size() - kSide * kSide);
  for (const std::uint64_t count : {std::uint64_t{1'000'000'000}, std::uint64_t{1} << 62, std::uint64_t{1} << 63,
                                    std::numeric_limits<std::uint64_t>::max()}) {
    INFO(count);
    CHECK(verify(a, b, right, count) > right.index.size());
    CHECK(verify(a, b, right, count) <= 80 * 80 * 3);
    CHECK_THROWS_AS(verify(a, b, missing, count), VerifyError);
  }
  const auto limited = [](std::uint64_t limit) { return verify_settings(1u << 30, 1, kSide, limit); };
  CHECK(limited(0).sample_bytes <= 64u << 20);
  CHECK(limited(8000).sample_bytes <= 1000);
  CHECK(limited(8000).sample_bytes + limited(8000).check_bytes <= 8000);
  CHECK(limited(1).sample_bytes > 0);
  const std::uint64_t checked = verify(a, b, right, limited(8000));
  CHECK(checked > 0);
  CHECK(checked <= 2 * 1000 / 88);  // 64 bytes of elements and three indices a block
}

TEST_CASE("verify gives the same answer however often it has to read the inputs") {
  const BlockMatrix a = test::random_matrix(kSide * 20, kSide, 150, 65535, 1);
  const BlockMatrix b = test::random_matrix(kSide * 20, kSide, 150, 65535, 2);
  const ProductMatrix right = test::oracle_multiply(a, b);
  for (const std::uint64_t check_bytes : {1u, 500u, 2000u, 10'000u, 1'000'000u}) {
    const VerifySettings settings{.num_blocks = 2000, .seed = 1, .sample_bytes = 1u << 20, .check_bytes = check_bytes};
    INFO(check_bytes);
    const std::uint64_t before = array_bytes();
    test::restart_array_peak();
    CHECK(verify(a, b, right, settings) > right.index.size());
    // Besides: a read, and two blocks at least.
    CHECK(test::peak_array_bytes() - before <= settings.sample_bytes + check_bytes + 150 * 40 + 300);
    for (const std::size_t element : {std::size_t{0}, right.values.size() / 3, right.values.size() - 1}) {
      ProductMatrix wrong = right;
      wrong.values[element] ^= 1;
      CHECK_THROWS_AS(verify(a, b, wrong, settings), VerifyError);
    }
  }
}

TEST_CASE("verify can be cancelled while it samples and while it checks") {
  const BlockMatrix a = test::random_matrix(kSide * 20, kSide, 80, 65535, 1);
  const auto source = make_memory_source(a, "A");
  ProductMatrix copy;
  const auto memory = make_memory_sink(copy);
  StageClock clock;
  const ProgressFn no_progress;
  std::atomic<bool> cancel = true;
  const Run run{.clock = clock, .on_progress = no_progress, .cancel = &cancel};
  const VerifySettings settings = verify_settings(1'000'000'000, 1, kSide, 0);
  CHECK_THROWS_AS(VerifyingSink(*memory, *source, *source, settings, run), Interrupted);
  cancel = false;
  VerifyingSink sink(*memory, *source, *source, settings, run);
  cancel = true;
  CHECK_THROWS_AS(sink.check(run), Interrupted);
}

TEST_CASE("verify hands the duty to release on, and keeps it if it fails") {
  const BlockMatrix a = test::random_matrix(kSide * 20, kSide, 80, 65535, 1);
  const auto source = make_memory_source(a, "A");
  const std::vector<std::byte> record(output_record_bytes(kSide));
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .cancel = nullptr};
  int num_failures = 0;
  for (std::int64_t num_left = 0; num_left < 4; ++num_left) {
    ProductMatrix copy;
    const auto memory = make_memory_sink(copy);
    memory->expect(kSide, 0);
    VerifyingSink sink(*memory, *source, *source, verify_settings(10, 1, kSide, 0), run);
    int num_released = 0;
    std::function<void()> release = [&] { ++num_released; };
    {
      const test::FailingMemory failing(num_left);
      try {
        sink.append(record, std::move(release));
      } catch (...) {
        ++num_failures;
      }
    }
    CHECK(num_released == 1);
  }
  CHECK(num_failures > 0);
}
