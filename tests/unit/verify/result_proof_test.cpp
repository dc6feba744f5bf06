// The proof in front of a sink: whatever way records come, and whatever the sink is, what is wrong does not get out.
#include "verify/proof.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/oracle.hpp"
#include "support/process.hpp"
#include "unit/verify/proof_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
namespace fs = std::filesystem;

enum class Order { ascending, descending };

struct Sent {
  ProofResult result{};
  std::string error{};  ///< of a VerifyError
};

/// Sends c past a proof of a b into `next` and publishes what is right.
Sent send(const BlockMatrix& a, const BlockMatrix& b, const ProductMatrix& c, Sink& next, Order order) {
  const MemorySource source_a(a, "A");
  const MemorySource source_b(b, "B");
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .cancel = nullptr, .num_threads = 2};
  const auto bytes = std::make_shared<const std::vector<std::byte>>(packed(c));  // writers go on behind a failure
  Proof proof(source_a, source_b, {.key = 5}, run);
  const std::uint64_t record = output_record_bytes(c.m);
  ResultProof proven(proof, next, a.header(), run);
  try {
    std::vector<std::uint64_t> firsts;  // of pieces of ten blocks
    for (std::uint64_t x = 0; x < c.index.size(); x += 10) firsts.push_back(x);
    if (order == Order::descending) std::reverse(firsts.begin(), firsts.end());
    for (const std::uint64_t first : firsts) {
      const std::uint64_t count = std::min<std::uint64_t>(10, c.index.size() - first);
      const auto records = std::span(*bytes).subspan(first * record, count * record);
      proven.look(first, records);
      next.write(first, records, [bytes] {});
    }
    next.finish(c.header());
    Sent sent{.result = proven.check(c.index.size())};
    next.publish();
    return sent;
  } catch (const VerifyError& error) {
    return {.error = error.what()};
  }
}

struct Operands2 {
  BlockMatrix a = random_matrix(4 * 40, 4, 200, 65535, 1);
  BlockMatrix b = random_matrix(4 * 40, 4, 200, 65535, 2);
  ProductMatrix c = oracle_multiply(a, b);
};

/// What can be wrong with a result on its way.
std::vector<ProductMatrix> wrong_results(const ProductMatrix& c) {
  std::vector<ProductMatrix> all(6, c);
  all[0].values[c.values.size() / 2] ^= 2;
  all[1].index.erase(all[1].index.begin() + 33);
  all[1].values.erase(all[1].values.begin() + 33 * 16, all[1].values.begin() + 34 * 16);
  all[2].index[40] = all[2].index[39];                                             // twice
  std::fill(all[3].values.begin() + 50 * 16, all[3].values.begin() + 51 * 16, 0);  // a zero block
  std::swap(all[4].index[60], all[4].index[61]);                                   // out of order
  all[5].index.back().j = 40;                                                      // out of range
  return all;
}

}  // namespace

TEST_CASE("result proof: records of a file in any order") {
  const Operands2 o;
  const TemporaryFolder folder;
  for (const Order order : {Order::ascending, Order::descending}) {
    const auto sink = open_file_sink(folder.file("c.bin"), 4, {});
    const Sent sent = send(o.a, o.b, o.c, *sink, order);
    CHECK(sent.error.empty());
    CHECK(sent.result.num_rows == 160);
    CHECK(read_product(folder.file("c.bin")) == o.c);
    fs::remove(folder.file("c.bin"));
    for (const ProductMatrix& wrong : wrong_results(o.c)) {
      const auto other = open_file_sink(folder.file("c.bin"), 4, {});
      CHECK_FALSE(send(o.a, o.b, wrong, *other, order).error.empty());
      CHECK_FALSE(fs::exists(folder.file("c.bin")));
    }
  }
}

TEST_CASE("result proof: a sink that cannot be read again") {
  const Operands2 o;
  MemorySink right(o.c.header(), 2);
  CHECK(send(o.a, o.b, o.c, right, Order::ascending).error.empty());
  CHECK(right.product() == o.c);
  for (const ProductMatrix& wrong : wrong_results(o.c)) {
    MemorySink memory(o.c.header());
    CHECK_FALSE(send(o.a, o.b, wrong, memory, Order::ascending).error.empty());
    const auto device = open_file_sink("/dev/null", 4, {});
    CHECK_FALSE(send(o.a, o.b, wrong, *device, Order::ascending).error.empty());
  }
}
