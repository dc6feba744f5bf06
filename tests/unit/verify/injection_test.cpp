// Errors of every kind, one at a time, in results of many sizes: all must be found, and right results pass.
// SPMM_TEST_INJECTIONS: how many; a tenth as many right results.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "spmm/saturate.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/oracle.hpp"
#include "unit/verify/proof_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

struct Product {
  BlockMatrix a;
  BlockMatrix b;
  ProductMatrix c;
};

/// Products of several sides; elements that never, seldom, often and always saturate.
std::vector<Product> products() {
  struct Shape {
    std::uint32_t m, side, blocks, most;
  };
  std::vector<Product> all;
  for (const Shape& s :
       {Shape{8, 10, 30, 2047}, Shape{4, 16, 80, 2047}, Shape{1, 40, 300, 65535}, Shape{3, 12, 60, 65535},
        Shape{8, 8, 24, 65535}, Shape{4, 10, 60, 40000}, Shape{2, 16, 60, 65535}, Shape{5, 6, 20, 50000},
        Shape{16, 4, 8, 30000}, Shape{4, 12, 40, 32000}}) {
    Product p{.a = random_matrix(s.m * s.side, s.m, s.blocks, s.most, s.m + s.side),
              .b = random_matrix(s.m * s.side, s.m, s.blocks, s.most, s.m + s.side + 1),
              .c = {}};
    p.c = oracle_multiply(p.a, p.b);
    all.push_back(std::move(p));
  }
  return all;
}

void erase_block(ProductMatrix& c, std::size_t x) {
  const auto elements = static_cast<std::ptrdiff_t>(std::size_t{c.m} * c.m);
  const auto first = c.values.begin() + static_cast<std::ptrdiff_t>(x) * elements;
  c.values.erase(first, first + elements);
  c.index.erase(c.index.begin() + static_cast<std::ptrdiff_t>(x));
}

/// Makes C wrong in one place; false where the draw changes nothing.
bool inject(ProductMatrix& c, int kind, std::mt19937_64& random) {
  const std::size_t elements = std::size_t{c.m} * c.m;
  const std::size_t x = random() % c.index.size();
  std::uint32_t& value = c.values[x * elements + random() % elements];
  const std::uint32_t before = value;
  switch (kind) {
    case 0:
      value ^= 1u << random() % 32;
      return true;
    case 1:
      value += 1;
      return true;
    case 2:
      value -= 1;
      return true;
    case 3:
      value = before == kMaxVal ? kMaxVal - 1 : kMaxVal;
      return true;
    case 4:
      value = static_cast<std::uint32_t>(random());
      return value != before;
    case 5: {  // the elements of two blocks
      const std::size_t y = random() % c.index.size();
      const auto first = c.values.begin() + static_cast<std::ptrdiff_t>(x * elements);
      const auto second = c.values.begin() + static_cast<std::ptrdiff_t>(y * elements);
      if (std::equal(first, first + static_cast<std::ptrdiff_t>(elements), second)) return false;
      std::swap_ranges(first, first + static_cast<std::ptrdiff_t>(elements), second);
      return true;
    }
    case 6:
      erase_block(c, x);
      return true;
    case 7: {
      const std::uint32_t nb = c.n / c.m;
      const BlockIndex at{.i = static_cast<std::uint32_t>(random() % nb),
                          .j = static_cast<std::uint32_t>(random() % nb)};
      if (std::find(c.index.begin(), c.index.end(), at) != c.index.end()) return false;
      c.index.push_back(at);
      c.values.insert(c.values.end(), elements, 0);
      c.values[c.values.size() - 1 - random() % elements] = random() % 2 == 0 ? kMaxVal : 1;
      return true;
    }
    case 8: {  // a run of zeros
      const std::size_t begin = random() % c.values.size();
      const std::size_t end = std::min(c.values.size(), begin + 1 + random() % (2 * elements));
      bool any = false;
      for (std::size_t e = begin; e < end; ++e) {
        any |= c.values[e] != 0;
        c.values[e] = 0;
      }
      return any;
    }
    default: {  // two elements of a row that keep its plain sum
      std::uint32_t& other = c.values[x * elements + random() % elements];
      if (&other == &value) return false;
      value += 1;
      other -= 1;
      return true;
    }
  }
}

std::uint64_t num_injections() {
  constexpr std::uint64_t kUsual = 2000;
  const char* const given = std::getenv("SPMM_TEST_INJECTIONS");
  return given == nullptr ? kUsual : std::strtoull(given, nullptr, 10);
}

}  // namespace

TEST_CASE("proof: every injected error is found, every right result passes", "[injections]") {
  const std::vector<Product> all = products();
  std::mt19937_64 random(2026);
  const std::uint64_t wanted = num_injections();
  std::uint64_t num_injected = 0;
  std::uint64_t num_found = 0;
  std::uint64_t num_right = 0;
  std::uint64_t num_passed = 0;
  constexpr int kKinds = 10;
  for (std::uint64_t x = 0; num_injected < wanted; ++x) {
    const Product& product = all[x / kKinds % all.size()];
    const ProvenHow how{.settings = {.key = random(), .memory_bytes = x / 7 % 3 * 5000},  // with every kind and product
                        .can_find = x % 3 != 0,
                        .num_threads = 1};
    if (x % 10 == 0) {
      ++num_right;
      num_passed += prove(product.a, product.b, product.c, how).is_right() ? 1 : 0;
    }
    ProductMatrix wrong = product.c;
    const int kind = static_cast<int>(x % kKinds);
    if (!inject(wrong, kind, random)) continue;
    ++num_injected;
    if (!prove(product.a, product.b, wrong, how).is_right()) {
      ++num_found;
    } else {
      UNSCOPED_INFO("missed: kind " << kind << ", m " << product.c.m << ", key " << how.settings.key);
    }
  }
  CHECK(num_found == num_injected);
  CHECK(num_passed == num_right);
  CHECK(num_right >= wanted / 10);
}
