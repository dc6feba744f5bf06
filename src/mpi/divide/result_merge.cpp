// Sorted partial products merged into sums.
#include "mpi/divide/result_merge.hpp"

#include <algorithm>
#include <queue>

#include "base/records/head.hpp"
#include "base/records/saturating_sum.hpp"

namespace spmm::mpi {
namespace {

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

}  // namespace spmm::mpi
