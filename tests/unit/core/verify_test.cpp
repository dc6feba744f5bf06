// --verify must notice every kind of wrong result.
#include <cstring>
#include <functional>
#include <vector>

#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/oracle.hpp"
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
