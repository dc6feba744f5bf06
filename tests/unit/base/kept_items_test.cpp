// Kept operands: which goes first, who may use them, how they give way to products, and who waits for whom.
#include "base/memory/kept_items.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/memory/budget.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using namespace std::chrono_literals;

constexpr std::uint64_t kDevice = 1000;

SourceIdentity file(std::uint64_t inode, std::int64_t changed_ns = 0) {
  return {.device = 1, .inode = inode, .bytes = 100, .modified_ns = 7, .changed_ns = changed_ns, .header = {8, 4, 1}};
}

KeptItems::Item item() {
  return std::make_shared<const int>(0);
}

/// A product that has examined both limits and taken its part.
struct Product {
  Product(MemoryBudget& budget, std::uint64_t device_bytes, const std::vector<SourceIdentity>& files = {})
      : share(budget) {
    share.host_limit_bytes([] { return std::uint64_t{100}; });
    share.device_limit_bytes([] { return kDevice; });
    share.reserve({.host = 0, .device = device_bytes}, nullptr, files);
  }

  KeptClaim claim(const SourceIdentity& wanted, bool keep = false, std::uint64_t bytes = 1) {
    const std::vector<KeptWish> wishes{{.identity = wanted, .keep = keep, .bytes = bytes}};
    return std::move(share.claim(wishes, nullptr, 10s).front());
  }

  MemoryShare share;
};

/// A product comes, keeps an operand, and ends.
void keep(MemoryBudget& budget, const SourceIdentity& identity, std::uint64_t bytes) {
  Product product(budget, bytes);
  KeptClaim claim = product.claim(identity, true, bytes);
  REQUIRE(claim.is_promised());
  claim.provide(bytes, item());
}

}  // namespace

TEST_CASE("kept items: the one used longest ago goes first, one in use never, and not those that are wanted") {
  KeptItems kept;
  for (const std::uint64_t inode : {1u, 2u, 3u, 4u}) {
    const KeptItems::Id id = kept.promise(file(inode));
    CHECK(kept.idle_bytes() == (inode - 1) * 10);
    kept.provide(id, 10, item());
    CHECK(kept.idle_bytes() == (inode - 1) * 10);  // its first user
    kept.end_use(id);
  }
  const KeptItems::Id first = kept.find(file(1))->id;
  CHECK(kept.use(first) != nullptr);
  kept.end_use(first);  // 2, 3, 4, 1
  const KeptItems::Id second = kept.find(file(2))->id;
  CHECK(kept.use(second) != nullptr);  // 3, 4, 1, and 2 in use
  CHECK(kept.idle_bytes() == 30);
  const std::vector<SourceIdentity> wanted{file(3)};
  CHECK(kept.idle_bytes(wanted) == 20);
  CHECK(kept.drop_oldest(wanted));
  CHECK(kept.find(file(4)) == nullptr);
  CHECK(kept.find(file(1)) != nullptr);
  CHECK(kept.drop_oldest(wanted));
  CHECK(kept.find(file(1)) == nullptr);
  CHECK_FALSE(kept.drop_oldest(wanted));
  CHECK(kept.drop_oldest());
  CHECK(kept.find(file(3)) == nullptr);
  CHECK_FALSE(kept.drop_oldest());  // only the one in use is left
  kept.end_use(second);
  CHECK(kept.drop_oldest());
}

TEST_CASE("kept items: every part of an identity counts, and an older state of a file goes when a newer one comes") {
  KeptItems kept;
  const SourceIdentity one = file(1);
  const KeptItems::Id id = kept.promise(one);
  kept.provide(id, 10, item());
  std::vector<SourceIdentity> others(6, one);
  others[0].device = 2;
  others[1].inode = 2;
  others[2].bytes = 101;
  others[3].modified_ns = 8;
  others[4].changed_ns = 1;
  others[5].header.n = 12;
  CHECK(kept.find(one) != nullptr);
  for (const SourceIdentity& other : others) CHECK(kept.find(other) == nullptr);

  kept.withdraw(kept.promise(others[4]));
  CHECK(kept.find(one) != nullptr);  // in use
  kept.end_use(id);
  kept.withdraw(kept.promise(others[1]));
  CHECK(kept.find(one) != nullptr);  // another file
  kept.withdraw(kept.promise(others[4]));
  CHECK(kept.find(one) == nullptr);
}

TEST_CASE("kept operands: a later product uses what an earlier one kept, whether or not it would keep it itself") {
  MemoryBudget budget;
  keep(budget, file(1), 100);
  CHECK(budget.keeps(file(1)));
  CHECK_FALSE(budget.keeps(file(1, 5)));
  Product later(budget, 100);
  CHECK(later.claim(file(1)).item() != nullptr);
  const KeptClaim other = later.claim(file(2));
  CHECK(other.item() == nullptr);
  CHECK_FALSE(other.is_promised());
  CHECK_FALSE(later.claim(file(3), true, kDevice / 2).is_promised());  // not less than half
  CHECK(later.claim(file(3), true, kDevice / 2 - 1).is_promised());
  CHECK_FALSE(budget.keeps(file(3)));  // the promise was withdrawn
}

TEST_CASE("kept operands: what is idle gives way to products that reserve or grow; what is in use is covered by them") {
  MemoryBudget budget;
  keep(budget, file(1), 300);
  keep(budget, file(2), 300);
  {
    const Product product(budget, 400);
    CHECK(budget.keeps(file(1)));
    CHECK(product.share.free().device == 600);
  }
  {
    const Product product(budget, 401);
    CHECK_FALSE(budget.keeps(file(1)));
    CHECK(budget.keeps(file(2)));
  }
  {
    Product product(budget, kDevice, {file(2)});  // everything, what is kept included
    const KeptClaim claim = product.claim(file(2));
    CHECK(claim.item() != nullptr);
    CHECK_FALSE(product.share.grow_device(1));
  }
  CHECK_FALSE(budget.keeps(file(2)));  // no product used it any more while the product held all memory
  keep(budget, file(3), 300);
  {
    Product product(budget, 600);
    CHECK(product.share.grow_device(100));
    CHECK(budget.keeps(file(3)));
    CHECK_FALSE(product.share.grow_device(301));
    CHECK(budget.keeps(file(3)));  // it would not have been enough
    CHECK(product.share.grow_device(1));
    CHECK_FALSE(budget.keeps(file(3)));
  }
  keep(budget, file(4), 300);
  Product product(budget, 100);
  CHECK(product.share.drop_kept());
  CHECK_FALSE(product.share.drop_kept());
  CHECK_FALSE(budget.keeps(file(4)));
}

TEST_CASE("kept operands: an operand stays beside the product that kept it only where there is room for both") {
  for (const std::uint64_t left : {100u, 99u}) {
    MemoryBudget budget;
    Product product(budget, kDevice - left);
    KeptClaim claim = product.claim(file(1), true, 100);
    claim.provide(100, item());
    CHECK(budget.keeps(file(1)));
    claim.release();
    CHECK(budget.keeps(file(1)) == (left == 100));
  }
}

TEST_CASE("kept operands: one that its product held to the end stays, however little there was beside the product") {
  MemoryBudget budget;
  for (const bool is_first : {true, false}) {
    Product product(budget, kDevice, {file(1)});
    KeptClaim claim = product.claim(file(1), true, 100);
    REQUIRE(claim.is_promised() == is_first);
    if (is_first) claim.provide(100, item());
    product.share.hold(std::move(claim));
  }
  const Product other(budget, kDevice - 99);
  CHECK_FALSE(budget.keeps(file(1)));
}

TEST_CASE("kept operands: who wants one that is on its way waits for it, and stops when it will not come") {
  for (const std::string how : {"comes", "fails", "late"}) {
    MemoryBudget budget;
    Product first(budget, 100);
    KeptClaim promise = first.claim(file(1), true);
    REQUIRE(promise.is_promised());
    std::atomic<bool> done{false};
    bool got = false;
    bool promised = false;
    std::jthread second([&] {
      Product product(budget, 100);
      const std::vector<KeptWish> wishes{{.identity = file(2), .keep = true, .bytes = 1},
                                         {.identity = file(1), .keep = true, .bytes = 1}};
      const std::vector<KeptClaim> claims = product.share.claim(wishes, nullptr, how == "late" ? 100ms : 600s);
      got = claims.back().item() != nullptr;
      promised = claims.back().is_promised();
      done = true;
    });
    if (how != "late") {
      while (!budget.keeps(file(2))) std::this_thread::yield();  // it has come to wait for the other one
      CHECK_FALSE(done);
      if (how == "comes") promise.provide(1, item());
      if (how == "fails") promise.release();
    }
    second.join();
    CHECK(got == (how == "comes"));
    CHECK_FALSE(promised);
  }
}

TEST_CASE("kept operands: two products that want each other's operands, and one with twice the same, do not wait") {
  MemoryBudget budget;
  Product first(budget, 100);
  const std::vector<KeptWish> same(2, KeptWish{.identity = file(9), .keep = true, .bytes = 1});
  {
    const std::vector<KeptClaim> claims = first.share.claim(same, nullptr, 60s);
    CHECK(claims[0].is_promised());
    CHECK_FALSE(claims[1].is_promised());
    CHECK(claims[1].item() == nullptr);
  }
  // A x B keeps A, B x A keeps B: the second one waits for A alone.
  const std::vector<KeptWish> ab{{.identity = file(1), .keep = true, .bytes = 1}, {.identity = file(2), .keep = false}};
  const std::vector<KeptWish> ba{{.identity = file(2), .keep = true, .bytes = 1}, {.identity = file(1), .keep = false}};
  std::vector<KeptClaim> claims = first.share.claim(ab, nullptr, 60s);
  CHECK(claims[1].item() == nullptr);
  std::jthread other([&] {
    Product second(budget, 100);
    const std::vector<KeptClaim> seconds = second.share.claim(ba, nullptr, 60s);
    CHECK(seconds[0].is_promised());
    CHECK(seconds[1].item() != nullptr);
  });
  std::this_thread::sleep_for(20ms);
  claims[0].provide(1, item());
}

TEST_CASE("kept operands: waiting for one can be cancelled, and leaves nothing promised") {
  MemoryBudget budget;
  Product first(budget, 100);
  const KeptClaim promise = first.claim(file(1), true);
  std::atomic<bool> cancel{false};
  std::jthread waiting([&] {
    Product second(budget, 100);
    const std::vector<KeptWish> wishes{{.identity = file(2), .keep = true, .bytes = 1}, {.identity = file(1)}};
    CHECK_THROWS_AS(second.share.claim(wishes, &cancel, 60s), Interrupted);
  });
  while (!budget.keeps(file(2))) std::this_thread::yield();
  cancel = true;
  waiting.join();
  CHECK_FALSE(budget.keeps(file(2)));
}

TEST_CASE("kept operands: items are destroyed with the budget, or as soon as they are dropped") {
  const auto watched = std::make_shared<const int>(1);
  {
    MemoryBudget budget;
    const auto keep_watched = [&](Product& product) {
      KeptClaim claim = product.claim(file(1), true);
      claim.provide(1, watched);
    };
    {
      Product product(budget, 100);
      keep_watched(product);
      CHECK(watched.use_count() == 2);
      CHECK(product.share.drop_kept());
      CHECK(watched.use_count() == 1);
      keep_watched(product);
    }
    CHECK(watched.use_count() == 2);
  }
  CHECK(watched.use_count() == 1);
}

TEST_CASE("an operand is kept plain and transposed side by side; a changed file drops both") {
  SourceIdentity transposed = file(1);
  transposed.is_transposed = true;
  KeptItems kept;
  kept.provide(kept.promise(file(1)), 10, item());
  kept.end_use(kept.find(file(1))->id);
  CHECK(kept.find(transposed) == nullptr);
  kept.provide(kept.promise(transposed), 10, item());
  kept.end_use(kept.find(transposed)->id);
  CHECK(kept.find(file(1)) != nullptr);
  CHECK(kept.idle_bytes() == 20);
  kept.promise(file(1, 1));
  CHECK(kept.find(file(1)) == nullptr);
  CHECK(kept.find(transposed) == nullptr);
}
