#include "dist/result_merge.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <queue>

#include "base/record_head.hpp"

namespace spmm::dist {
namespace {

/// Adds a block to another one; what passes 2^32 - 1 stays there.
void add_saturating(std::byte* to, const std::byte* from, std::uint64_t num_elements) {
  for (std::uint64_t e = 0; e < num_elements; ++e, to += sizeof(std::uint32_t), from += sizeof(std::uint32_t)) {
    std::uint32_t x = 0;
    std::uint32_t y = 0;
    std::memcpy(&x, to, sizeof x);
    std::memcpy(&y, from, sizeof y);
    const std::uint32_t sum = x + y;
    const std::uint32_t result = sum < x ? std::numeric_limits<std::uint32_t>::max() : sum;
    std::memcpy(to, &result, sizeof result);
  }
}

/// The first record left of a part.
struct Front {
  BlockIndex at;
  std::size_t part = 0;

  friend bool operator>(const Front& x, const Front& y) { return x.at > y.at; }
};

}  // namespace

std::vector<std::byte> sum_of_results(std::span<const std::span<const std::byte>> parts, std::uint32_t m) {
  const std::uint64_t record = output_record_bytes(m);
  std::vector<std::span<const std::byte>> left(parts.begin(), parts.end());
  std::priority_queue<Front, std::vector<Front>, std::greater<>> fronts;
  std::size_t largest = 0;
  for (std::size_t p = 0; p < left.size(); ++p) {
    largest = std::max(largest, left[p].size());
    if (!left[p].empty()) fronts.push({.at = read_index(left[p].data()), .part = p});
  }
  std::vector<std::byte> sum;
  sum.reserve(largest);
  while (!fronts.empty()) {
    const Front front = fronts.top();
    fronts.pop();
    std::span<const std::byte>& part = left[front.part];
    if (!sum.empty() && read_index(&sum[sum.size() - record]) == front.at) {
      add_saturating(&sum[sum.size() - record + kIndexBytes], part.data() + kIndexBytes, std::uint64_t{m} * m);
    } else {
      sum.insert(sum.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(record));
    }
    part = part.subspan(record);
    if (!part.empty()) fronts.push({.at = read_index(part.data()), .part = front.part});
  }
  return sum;
}

}  // namespace spmm::dist
