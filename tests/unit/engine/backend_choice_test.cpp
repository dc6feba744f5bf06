// Which backend a product runs on that leaves it open: sampled indices, and what follows from them.
#include "engine/backend_choice.hpp"

#include <cstring>
#include <map>

#include "base/records/head.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;

double count_pairs(const BlockMatrix& a, const BlockMatrix& b) {
  std::map<std::uint32_t, double> in_row;
  for (const BlockIndex& at : b.index) ++in_row[at.i];
  double pairs = 0;
  for (const BlockIndex& at : a.index) pairs += in_row.contains(at.j) ? in_row.at(at.j) : 0;
  return pairs;
}

/// All blocks of A in one block column, all of B in that block row: k * k pairs where evenly spread ones make few.
class Hub final : public Source {
 public:
  Hub(std::uint32_t num_blocks, bool is_a)
      : header_{.n = 4 * (1u << 20), .m = 4, .num_blocks = num_blocks}, is_a_(is_a) {}
  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  void check_unchanged() const override {}
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    const std::uint64_t record = input_record_bytes(header_.m);
    for (std::uint64_t x = 0; x < count; ++x) {
      const auto other = static_cast<std::uint32_t>(first + x);
      write_index(dst + x * record, is_a_ ? BlockIndex{.i = other, .j = 77} : BlockIndex{.i = 77, .j = other});
    }
  }

 private:
  MatrixHeader header_;
  std::string name_ = "hub";
  bool is_a_;
};

plan::Limits open_machine() {
  plan::Limits limits = test::large_machine();
  limits.backend = Backend::automatic;
  limits.num_threads = limits.num_cores = 16;
  limits.device->start_s = 0.35;
  return limits;
}

}  // namespace

TEST_CASE("pairs of small operands are counted exactly") {
  Workers workers;
  for (const std::uint32_t m : {1u, 4u, 5u, 8u}) {
    const BlockMatrix a = test::random_matrix(60 * m, m, 900, 100, 1);
    const BlockMatrix b = test::random_matrix(60 * m, m, 300, 100, 2);
    const auto source_a = make_memory_source(a, "A");
    const auto source_b = make_memory_source(b, "B");
    const plan::Statistics s = sample_statistics({*source_a, *source_b}, 3, workers);
    CHECK(s.num_pairs == count_pairs(a, b));
    CHECK(s.num_c_blocks <= s.num_pairs);
    CHECK_FALSE(s.exact);
  }
}

TEST_CASE("pairs of large operands are estimated from a part of their records") {
  Workers workers;
  const BlockMatrix a = test::random_matrix(1'500 * 4, 4, 300'000, 100, 1);  // 12 MB
  const BlockMatrix b = test::random_matrix(1'500 * 4, 4, 250'000, 100, 2);
  const auto source_a = make_memory_source(a, "A");
  const auto source_b = make_memory_source(b, "B");
  const plan::Statistics s = sample_statistics({*source_a, *source_b}, 4, workers);
  CHECK(s.num_pairs == Approx(count_pairs(a, b)).epsilon(0.05));
  CHECK(s.num_pairs != count_pairs(a, b));  // not all were read
}

TEST_CASE("skewed operands with much more work than their headers tell go to the device") {
  Workers workers;
  const plan::Limits limits = open_machine();
  const Hub a(200'000, true);
  const Hub b(200'000, false);
  CHECK(plan::decide(plan::expected_statistics(a.header(), b.header()), limits).backend == Backend::cpu);
  const BackendChoice choice = choose_backend({a, b}, limits, workers);
  CHECK(choice.backend == Backend::cuda);
  CHECK(choice.cpu_s > choice.cuda_s);
  // Transposed they have no pairs at all.
  CHECK(choose_backend({b, a}, limits, workers).backend == Backend::cpu);
}

TEST_CASE("within a memory limit the choice counts on a scratch file, and on no file behind a device") {
  const Hub a(200'000, false);
  const Hub b(200'000, false);
  Workers workers;
  plan::Limits limits = open_machine();
  limits.host_bytes = 9'000'000;
  const double again = choose_backend({a, b}, limits, workers).cpu_s;
  limits.has_scratch = true;
  const double sorted = choose_backend({a, b}, limits, workers).cpu_s;
  CHECK(sorted > 0);
  CHECK(sorted < again);
  limits.host_bytes = std::uint64_t{4} << 30;
  const plan::Statistics s = test::evenly_spread(8192, 8, 1e5, 2047);
  limits.backend = Backend::cpu;
  const double written = plan::decide(s, limits).predicted_s;
  limits.discards_result = true;
  CHECK(plan::decide(s, limits).predicted_s < 0.8 * written);
}

TEST_CASE("operands without blocks or with wrong indices do not disturb the choice") {
  Workers workers;
  const BlockMatrix none{.n = 80, .m = 4, .index = {}, .values = {}};
  const auto empty = make_memory_source(none, "A");
  CHECK(sample_statistics({*empty, *empty}, 2, workers).num_pairs == 0);
  CHECK(choose_backend({*empty, *empty}, open_machine(), workers).backend == Backend::cpu);
  const Hub outside(2'000'000, true);  // rows beyond the matrix
  CHECK_NOTHROW(sample_statistics({outside, outside}, 2, workers));
}

TEST_CASE("what is expected of files within a memory limit counts on a scratch file") {
  const MatrixHeader header{.n = 32'768, .m = 8, .num_blocks = 200'000};
  Options options;
  options.backend = Backend::cpu;
  options.num_threads = 1;
  const double at_once = expected_seconds(header, header, options);
  options.memory_limit_bytes = 10'000'000;
  const double limited = expected_seconds(header, header, options);
  CHECK(at_once > 0);
  CHECK(limited > at_once);
  CHECK(limited < 30 * at_once);  // operands that are read again for each slab: hundreds of times as long
}

TEST_CASE("a product waits for memory of others only if it would run otherwise without them") {
  const plan::Statistics s = plan::expected_statistics({.n = 32'768, .m = 4, .num_blocks = 33'000'000},
                                                       {.n = 32'768, .m = 4, .num_blocks = 33'000'000});
  plan::Limits alone = open_machine();
  alone.backend = Backend::cuda;
  alone.has_scratch = true;
  const auto with = [&](std::uint64_t bytes) {
    plan::Limits limits = alone;
    limits.device->bytes = bytes;
    return limits;
  };
  CHECK_FALSE(is_crowded_out(s, alone, alone));
  CHECK_FALSE(is_crowded_out(s, with(alone.device->bytes / 2), alone));  // what is free suffices
  CHECK(is_crowded_out(s, with(std::uint64_t{3} << 30), alone));         // in slabs
  CHECK(is_crowded_out(s, with(1'000), alone));                          // not at all
  CHECK_FALSE(is_crowded_out(s, with(1'000), with(1'000)));              // nor without them
}
