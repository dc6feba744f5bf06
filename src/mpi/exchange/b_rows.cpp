// Block rows of B at their homes, counted and fetched.
#include "mpi/exchange/b_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/records/errors.hpp"
#include "mpi/exchange/distinct_rows.hpp"
#include "mpi/exchange/row_ranges.hpp"

namespace spmm::mpi {
namespace {

std::uint32_t row_of(const cpu::SortItem& item) {
  return static_cast<std::uint32_t>(item.key >> 32);
}

}  // namespace

void BRows::distribute(const Source& b, const std::vector<std::uint32_t>& samples) {
  const auto home = [&](BlockIndex at) { return static_cast<int>(part_of(first_rows_, at.i)); };
  first_rows_ = split_rows(group_, samples);
  send_records(group_, b, store_.record_bytes(), home, [&](int, std::span<const std::byte> sent) { store_.add(sent); });
}

void BRows::sort(const Source& b, unsigned num_threads) {
  limit_.take(store_.size() * sizeof(cpu::SortItem));
  order_ = AlignedArray<cpu::SortItem>(store_.size());
  for (std::uint64_t r = 0; r < store_.size(); ++r) {
    const BlockIndex at = store_.index(r);
    order_[r] = {.key = std::uint64_t{at.i} << 32 | at.j, .value = static_cast<std::uint32_t>(r)};
  }
  const AlignedArray<cpu::SortItem> scratch(store_.size());
  const auto bits = static_cast<unsigned>(std::bit_width(b.header().blocks_per_side()));
  const std::span<cpu::SortItem> items(order_.data(), order_.size());
  cpu::radix_sort(items, scratch.data(), 0, bits, num_threads);
  cpu::radix_sort(items, scratch.data(), 32, 32 + bits, num_threads);
  for (std::uint64_t x = 1; x < order_.size(); ++x) {
    if (order_[x].key != order_[x - 1].key) continue;
    throw_duplicate_block(b, store_.number(order_[x - 1].value), store_.number(order_[x].value),
                          store_.index(order_[x].value));
  }
}

Share BRows::find(std::uint32_t row, std::uint64_t from) const {
  // Gallops: rows are short, and consecutive requests lie close together.
  const auto past = [&](std::uint64_t begin, const auto& is_before) {
    std::uint64_t low = begin;
    for (std::uint64_t step = 1; low < order_.size() && is_before(row_of(order_[low])); step *= 2) {
      const std::uint64_t next = std::min<std::uint64_t>(low + step, order_.size());
      if (next < order_.size() && is_before(row_of(order_[next]))) {
        low = next;
        continue;
      }
      const auto end = std::partition_point(order_.begin() + low + 1, order_.begin() + next,
                                            [&](const auto& x) { return is_before(row_of(x)); });
      return static_cast<std::uint64_t>(end - order_.begin());
    }
    return low;
  };
  const std::uint64_t begin = past(from, [&](std::uint32_t x) { return x < row; });
  return {.begin = begin, .end = past(begin, [&](std::uint32_t x) { return x == row; })};
}

std::uint64_t BRows::size_here(std::uint32_t row) const {
  const Share blocks = find(row);
  return blocks.end - blocks.begin;
}

std::vector<std::uint32_t> BRows::columns_here(std::uint32_t blocks_per_side) const {
  std::vector<std::uint32_t> columns;
  columns.reserve(order_.size());
  for (const cpu::SortItem& item : order_) columns.push_back(static_cast<std::uint32_t>(item.key));
  return DistinctRows(columns, blocks_per_side).rows();
}

std::vector<Bytes> BRows::by_home(const std::vector<std::uint32_t>& rows) const {
  std::vector<Bytes> lists;
  auto begin = rows.begin();
  for (int home = 0; home < group_.ranks.size(); ++home) {
    const bool is_last = home + 1 == group_.ranks.size();
    const auto end =
        is_last ? rows.end() : std::lower_bound(begin, rows.end(), first_rows_[static_cast<std::size_t>(home)]);
    lists.push_back(bytes_of({begin, end}));
    begin = end;
  }
  return lists;
}

std::vector<std::uint32_t> BRows::count(const std::vector<std::uint32_t>& rows) const {
  std::vector<Bytes> answers;
  for (const Bytes& wanted : swap_lists(group_, by_home(rows))) {
    std::vector<std::uint32_t> counts = numbers_of(wanted);
    Share blocks;
    for (std::uint32_t& number : counts) {
      blocks = find(number, blocks.end);
      number = static_cast<std::uint32_t>(blocks.end - blocks.begin);  // below 2^32: one row
    }
    answers.push_back(bytes_of(counts));
  }
  std::vector<std::uint32_t> counts;
  for (const Bytes& some : swap_lists(group_, answers)) {
    const std::vector<std::uint32_t> numbers = numbers_of(some);
    counts.insert(counts.end(), numbers.begin(), numbers.end());
  }
  return counts;
}

void BRows::fetch(const std::vector<std::uint32_t>& rows, RecordStore& to) const {
  struct Wanted {
    std::vector<std::uint32_t> rows;
    std::size_t row = 0;
    Share left{};  ///< of the row before `row`
  };
  std::vector<Wanted> wanted;
  for (const Bytes& list : swap_lists(group_, by_home(rows))) wanted.push_back({.rows = numbers_of(list)});
  const std::uint64_t record = store_.record_bytes();
  const std::uint64_t most = std::max(record, group_.ranks.round_bytes() / wanted.size());
  const auto fill = [&](Wanted& want, Bytes& bytes) {
    while (bytes.size() + record <= most) {
      if (want.left.begin == want.left.end) {
        if (want.row == want.rows.size()) return false;
        want.left = find(want.rows[want.row++], want.left.end);
        continue;
      }
      const std::byte* const from = store_.sent(order_[want.left.begin++].value);
      bytes.insert(bytes.end(), from, from + record);
    }
    return true;
  };
  group_.ranks.exchange(
      [&](std::vector<Bytes>& now) {
        group_.check_cancelled();
        bool more = false;
        for (std::size_t r = 0; r < wanted.size(); ++r) more |= fill(wanted[r], now[r]);
        return more;
      },
      [&](int, std::span<const std::byte> sent) { to.add(sent); });
}

void BRows::clear() {
  limit_.give_back(order_.size() * sizeof(cpu::SortItem));
  store_.clear();
  order_ = {};
}

}  // namespace spmm::mpi
