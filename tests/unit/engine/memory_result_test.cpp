// Matrices in memory: the limit counts the result, and messages speak of matrices.
#include <functional>
#include <string>

#include "spmm/spmm.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/product_cases.hpp"

namespace {

using namespace spmm;
using test::has;
using test::message_of;

ProductOptions on_host() {
  ProductOptions options;
  options.backend = Backend::cpu;
  return options;
}

/// A column of ones times a row of ones: 2 * side blocks of operands, side^2 of result.
struct OuterProduct {
  BlockMatrix a;
  BlockMatrix b;

  OuterProduct(std::uint32_t side, std::uint32_t m) : a{.n = side * m, .m = m, .index = {}, .values = {}}, b(a) {
    for (std::uint32_t x = 0; x < side; ++x) {
      a.index.push_back({x, 0});
      b.index.push_back({0, x});
    }
    a.values.assign(std::size_t{side} * m * m, 1);
    b.values = a.values;
  }
};

}  // namespace

TEST_CASE("a result in memory counts against the limit, a result in a file does not") {
  const OuterProduct outer(256, 8);  // 65,536 blocks of 264 bytes: 17 MB
  Engine engine({.num_threads = 1, .memory_limit_bytes = 16'000'000});
  const std::string message = message_of<OutOfMemory>([&] { engine.multiply(outer.a, outer.b, on_host()); });
  INFO(message);
  CHECK(has(message, "result in memory: its first "));
  CHECK(has(message, "do not fit the limit of 16"));
  CHECK(has(message, "EngineOptions::memory_limit_bytes"));
  // Nothing of it is counted any more: what does not keep its records has the whole limit.
  test::MemorySink sink({.n = outer.a.n, .m = 8, .num_blocks = 0});
  const auto a = make_memory_source(outer.a, "matrix A");
  const auto b = make_memory_source(outer.b, "matrix B");
  CHECK(engine.multiply(*a, *b, sink, on_host()).c_blocks == 65'536);
  // And a smaller result goes through on the same engine, again and again.
  const OuterProduct small(100, 8);
  for (int round = 0; round < 5; ++round) {
    Report report;
    CHECK(engine.multiply(small.a, small.b, on_host(), &report).index.size() == 10'000);
    CHECK(report.plan.host_limit_bytes > 0);
    CHECK(report.plan.host_limit_bytes < 16'000'000);
  }
}

TEST_CASE("operands out of core leave room for a result in memory") {
  const test::ProductCase one = test::make_product_case(8, 100, 6000, "row-merge");
  const std::uint64_t result = one.expected.index.size() * output_record_bytes(8);
  Engine engine({.num_threads = 1, .memory_limit_bytes = result + 2'000'000});
  Report report;
  ProductOptions options = on_host();
  options.kernel = "reference";  // the others need 2 MB in addition to the operands
  CHECK(engine.multiply(one.a, one.b, options, &report) == one.expected);
  CHECK(report.plan.num_ranges > 1);
  CHECK(report.plan.host_limit_bytes <= 2'000'000);
}

TEST_CASE("an interrupted product in memory gives everything back") {
  const OuterProduct outer(100, 8);  // 2.6 MB of result
  Engine engine({.num_threads = 2, .memory_limit_bytes = 40'000'000});
  for (int round = 0; round < 5; ++round) {
    std::atomic<bool> cancel{false};
    ProductOptions options = on_host();
    options.cancel = &cancel;
    options.on_progress = [&](Stage, std::uint64_t, std::uint64_t) { cancel = true; };
    CHECK(has(message_of<Interrupted>([&] { engine.multiply(outer.a, outer.b, options); }), "interrupted"));
    Report report;
    CHECK(engine.multiply(outer.a, outer.b, on_host(), &report).index.size() == 10'000);
    CHECK(report.plan.host_limit_bytes > 20'000'000);
  }
}

TEST_CASE("messages about matrices in memory name blocks, not bytes of files") {
  const BlockMatrix good{.n = 4, .m = 2, .index = {{0, 0}, {1, 1}}, .values = std::vector<std::uint16_t>(8, 1)};
  const auto message = [&](const std::function<void(BlockMatrix&)>& spoil, const char* kernel) {
    BlockMatrix bad = good;
    spoil(bad);
    ProductOptions options = on_host();
    options.kernel = kernel;
    const std::string text = message_of<FormatError>([&] { multiply(good, bad, {{.num_threads = 2}, options}); });
    INFO(text);
    CHECK_FALSE(has(text, "byte"));
    CHECK_FALSE(has(text, "header"));
    CHECK_FALSE(has(text, "file"));
    return text;
  };
  for (const char* kernel : {"reference", "row-merge"}) {
    CHECK(has(message(
                  [](BlockMatrix& b) {
                    b.index[1] = {1, 2};
                  },
                  kernel),
              "matrix B, block 1: block index (1, 2) is out of range, expected both from 0 to 1"));
    CHECK(has(message(
                  [](BlockMatrix& b) {
                    b.index[1] = {0, 0};
                  },
                  kernel),
              "matrix B, block 1: block (0, 0) was stored before in block 0"));
  }
  CHECK(has(message([](BlockMatrix& b) { b.m = 0; }, "auto"), "matrix B: block side m is 0"));
  CHECK(has(message([](BlockMatrix& b) { b.n = 5; }, "auto"), "matrix B: matrix side n is 5"));
  CHECK(has(message([](BlockMatrix& b) { b.values.pop_back(); }, "auto"), "matrix B, block 1: 7 values"));
  const BlockMatrix other{.n = 6, .m = 2, .index = {}, .values = {}};
  CHECK(has(message_of<ShapeError>([&] {
              multiply(good, other, {{}, on_host()});
            }),
            "matrix A and matrix B: n = 4, m = 2 against n = 6, m = 2; "));
  ProductOptions unknown = on_host();
  unknown.kernel = "none";
  CHECK(has(message_of<UsageError>([&] {
              multiply(good, good, {{}, unknown});
            }),
            "ProductOptions::kernel: unknown kernel 'none'"));
}

TEST_CASE("an error can be taken apart") {
  const FormatError error("matrix A, block 1", "is: odd; really", "use another");
  CHECK(error.where() == "matrix A, block 1");
  CHECK(error.problem() == "is: odd; really");
  CHECK(error.hint() == "use another");
  CHECK(std::string(error.what()) == "matrix A, block 1: is: odd; really; use another");
}
