// How often each block row or block column occurs, in bounded memory.
#include "tools/info/index_counts.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace spmm::tools {
namespace {

constexpr std::uint64_t kAlwaysDense = std::uint64_t{1} << 20;
constexpr std::size_t kPendingIndices = std::size_t{16} << 20;

using CountMap = std::map<std::uint32_t, std::uint64_t>;  // count -> number of indices that have it

/// Count of the index with that place in the order of rising counts.
std::uint32_t count_at(const CountMap& indices_of, std::uint64_t place) {
  for (const auto& [count, indices] : indices_of) {
    if (place < indices) return count;
    place -= indices;
  }
  return 0;
}

}  // namespace

IndexCounts::IndexCounts(std::uint32_t size, std::uint64_t expected_adds) : size_(size) {
  if (size <= std::max(kAlwaysDense, 2 * expected_adds)) {
    dense_.resize(size);
  } else {
    pending_.reserve(std::min<std::uint64_t>(kPendingIndices, expected_adds));
  }
}

void IndexCounts::add(std::span<const std::uint32_t> indices) {
  if (!dense_.empty()) {
    for (const std::uint32_t index : indices) ++dense_[index];
    return;
  }
  pending_.insert(pending_.end(), indices.begin(), indices.end());
  if (pending_.size() >= kPendingIndices) merge_pending();
}

void IndexCounts::merge_pending() {
  std::sort(pending_.begin(), pending_.end());
  std::vector<Run> merged;
  std::size_t p = 0;
  const auto take_pending = [&](Run run) {
    for (; p < pending_.size() && pending_[p] == run.first; ++p) ++run.second;
    merged.push_back(run);
  };
  for (const Run& run : runs_) {
    while (p < pending_.size() && pending_[p] < run.first) take_pending({pending_[p], 0});
    take_pending(run);
  }
  while (p < pending_.size()) take_pending({pending_[p], 0});
  runs_ = std::move(merged);
  pending_.clear();
}

void IndexCounts::for_each(const std::function<void(std::uint32_t, std::uint32_t)>& visit) {
  for (std::uint32_t index = 0; index < dense_.size(); ++index) {
    if (dense_[index] > 0) visit(index, dense_[index]);
  }
  merge_pending();
  for (const auto& [index, count] : runs_) visit(index, count);
}

std::uint64_t sum_of_products(IndexCounts& x, IndexCounts& y) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> of_y;
  y.for_each([&](std::uint32_t index, std::uint32_t count) { of_y.emplace_back(index, count); });
  std::uint64_t sum = 0;
  auto next = of_y.begin();
  x.for_each([&](std::uint32_t index, std::uint32_t count) {
    while (next != of_y.end() && next->first < index) ++next;
    if (next != of_y.end() && next->first == index) sum += std::uint64_t{count} * next->second;
  });
  return sum;
}

Distribution distribution_of(IndexCounts& counts) {
  Distribution result;
  CountMap indices_of;
  std::uint64_t total = 0;
  std::uint64_t occurring = 0;
  counts.for_each([&](std::uint32_t, std::uint32_t count) {
    ++indices_of[count];
    total += count;
    ++occurring;
    const auto power = static_cast<std::size_t>(std::bit_width(count)) - 1;
    if (result.by_power.size() <= power) result.by_power.resize(power + 1);
    ++result.by_power[power];
  });
  const std::uint64_t size = counts.size();
  result.empty = size - occurring;
  if (result.empty > 0) indices_of[0] = result.empty;
  result.min = indices_of.begin()->first;
  result.max = indices_of.rbegin()->first;
  result.mean = static_cast<double>(total) / static_cast<double>(size);
  const std::uint64_t middle_two = std::uint64_t{count_at(indices_of, (size - 1) / 2)} + count_at(indices_of, size / 2);
  result.median = static_cast<double>(middle_two) / 2;
  return result;
}

}  // namespace spmm::tools
