// How often each block row (or block column) occurs, in little memory also if there are billions of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace spmm::tools {

/// Counts of indices in [0, size).
/// Memory: 4 bytes per index where size is small compared with the number of adds; else 8 bytes per index that occurs,
/// and 64 MB of indices not yet sorted at most.
class IndexCounts {
 public:
  /// Values: expected_adds = number of indices that will be added, about.
  IndexCounts(std::uint32_t size, std::uint64_t expected_adds);

  void add(std::span<const std::uint32_t> indices);

  /// Calls visit(index, count) for every index that occurs, in rising order.
  void for_each(const std::function<void(std::uint32_t index, std::uint32_t count)>& visit);

  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  using Run = std::pair<std::uint32_t, std::uint32_t>;  // index, count

  void merge_pending();

  std::uint32_t size_;
  std::vector<std::uint32_t> dense_;    ///< [size] counts; empty: runs_ is used
  std::vector<Run> runs_;               ///< by index
  std::vector<std::uint32_t> pending_;  ///< indices not yet in runs_
};

/// Sum over all indices of x's count times y's count. Values: x and y of the same size.
std::uint64_t sum_of_products(IndexCounts& x, IndexCounts& y);

/// Counts seen as a sample over all indices, those that do not occur included.
struct Distribution {
  std::uint32_t min = 0;
  double median = 0;
  double mean = 0;
  std::uint32_t max = 0;
  std::uint64_t empty = 0;              ///< indices that do not occur
  std::vector<std::uint64_t> by_power;  ///< [b] = indices with a count from 2^b to 2^(b+1) - 1
};

Distribution distribution_of(IndexCounts& counts);

}  // namespace spmm::tools
