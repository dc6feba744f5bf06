// Which backend a product runs on that leaves it open.
#include "engine/backend_choice.hpp"

#include "base/records/head.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "unit/plan/plan_support.hpp"

namespace {

using namespace spmm;

/// All blocks of A in few block columns, all of B in those block rows: many pairs where evenly spread ones make few.
class Hub final : public Source {
 public:
  Hub(std::uint32_t num_blocks, bool is_a, std::uint32_t num_inner = 1)
      : header_{.n = 4 * (1u << 20), .m = 4, .num_blocks = num_blocks}, is_a_(is_a), num_inner_(num_inner) {}
  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  void check_unchanged() const override {}
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    const std::uint64_t record = input_record_bytes(header_.m);
    for (std::uint64_t x = 0; x < count; ++x) {
      const auto other = static_cast<std::uint32_t>((first + x) / num_inner_);
      const auto inner = static_cast<std::uint32_t>(77 + (first + x) % num_inner_);
      write_index(dst + x * record, is_a_ ? BlockIndex{.i = other, .j = inner} : BlockIndex{.i = inner, .j = other});
    }
  }

 private:
  MatrixHeader header_;
  std::string name_ = "hub";
  bool is_a_;
  std::uint32_t num_inner_;
};

plan::Limits open_machine() {
  plan::Limits limits = test::large_machine();
  limits.backend = Backend::automatic;
  limits.num_threads = limits.num_cores = 16;
  limits.gpus[0].start_s = 0.35;
  return limits;
}

}  // namespace

TEST_CASE("skewed operands with much more work than their headers tell go to the device") {
  Workers workers;
  const plan::Limits limits = open_machine();
  const Hub a(2'000'000, true, 1'000);  // 4e9 pairs in 4e6 C blocks
  const Hub b(2'000'000, false, 1'000);
  CHECK(plan::decide(plan::expected_counts(a.header(), b.header()), limits).backend == Backend::cpu);
  const plan::Choice choice = choose_backend({a, b}, limits, workers);
  CHECK(choice.backend == Backend::cuda);
  CHECK(choice.cpu_s > choice.cuda_s);
  CHECK(choose_backend({Hub(200'000, false), Hub(200'000, true)}, limits, workers).backend == Backend::cpu);
}

TEST_CASE("operands without blocks or with wrong indices do not disturb the choice") {
  Workers workers;
  const BlockMatrix none{.n = 80, .m = 4, .index = {}, .values = {}};
  const auto empty = make_memory_source(none, "A");
  CHECK(choose_backend({*empty, *empty}, open_machine(), workers).backend == Backend::cpu);
  const Hub outside(2'000'000, true);  // rows beyond the matrix
  CHECK_NOTHROW(choose_backend({outside, outside}, open_machine(), workers));
}
