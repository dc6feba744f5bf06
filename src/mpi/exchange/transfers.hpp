// What is built on Communicator::exchange(): lists to all ranks, and the records of a file to the ranks that want them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "mpi/exchange/communicator.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm::mpi {

/// The consecutive records of a file that a rank reads.
struct Share {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
Share share_of(std::uint64_t num_records, int rank, int num_ranks);

/// What all steps of a run need.
struct Group {
  const Communicator& ranks;
  const std::atomic<bool>* cancel = nullptr;  ///< may be null

  /// Errors: Interrupted.
  void check_cancelled() const;
};

/// A list for every rank against one from every rank, of any length. Collective.
std::vector<Bytes> swap_lists(const Group& group, const std::vector<Bytes>& to);

/// Brings items, ascending by `row`, to the ranks of their rows; returns what all ranks have sent here, in no order.
/// Collective. Values: first_rows = of the ranks 1 .. Memory: the result, `own` and one round of exchange().
template <class Item>
std::vector<Item> at_homes(const Group& group, const std::vector<Item>& own,
                           std::span<const std::uint32_t> first_rows) {
  std::vector<std::span<const Item>> left;  // of each rank's items
  std::vector<std::uint64_t> sizes;
  for (std::span<const Item> rest(own); left.size() <= first_rows.size(); rest = rest.subspan(left.back().size())) {
    const auto is_here = [&](const Item& x) { return x.row < first_rows[left.size()]; };
    const auto end =
        left.size() == first_rows.size() ? rest.end() : std::partition_point(rest.begin(), rest.end(), is_here);
    left.emplace_back(rest.begin(), end);
    sizes.push_back(left.back().size());
  }
  group.ranks.sum(sizes);
  std::vector<Item> items;
  items.reserve(sizes[static_cast<std::size_t>(group.ranks.rank())]);
  const std::size_t most = std::max<std::size_t>(1, group.ranks.round_bytes() / left.size() / sizeof(Item));
  group.ranks.exchange(
      [&](std::vector<Bytes>& now) {
        group.check_cancelled();
        bool more = false;
        for (std::size_t r = 0; r < left.size(); ++r) {
          const auto bytes = std::as_bytes(left[r].first(std::min(most, left[r].size())));
          now[r].assign(bytes.begin(), bytes.end());
          left[r] = left[r].subspan(bytes.size() / sizeof(Item));
          more = more || !left[r].empty();
        }
        return more;
      },
      [&](int, std::span<const std::byte> bytes) {
        const std::size_t before = items.size();
        items.resize(before + bytes.size() / sizeof(Item));
        std::memcpy(items.data() + before, bytes.data(), bytes.size());
      });
  return items;
}

/// Calls body(first record, packed records, count) for pieces of a share. Errors: what the source throws, Interrupted.
using ReadPiece = std::function<void(std::uint64_t first, const std::byte* records, std::uint64_t count)>;
void read_share(const Group& group, const Source& source, const ReadPiece& body);

/// Errors: FormatError for the first record of a piece whose index is out of range.
void check_indices(const Source& source, std::uint64_t first, const std::byte* records, std::uint64_t count);

/// Block rows of a few records of this rank's share, spread evenly.
std::vector<std::uint32_t> sampled_rows(const Group& group, const Source& source);

/// First rows of the parts of all ranks, from samples of each. Shapes: [ranks - 1]. Collective.
std::vector<std::uint32_t> split_rows(const Group& group, const std::vector<std::uint32_t>& own_samples);

/// Each rank reads its share of a file and sends each record, with its number, to target(index). Collective.
/// Values: sent_bytes = sent_record_bytes(m), or kSentHeadBytes.
/// Errors: FormatError (index out of range), what the source and `consume` throw, Interrupted.
void send_records(const Group& group, const Source& source, std::uint64_t sent_bytes,
                  const std::function<int(BlockIndex)>& target, const Communicator::Consume& consume);

/// The same for the heads of this rank's share, which it has read. Collective. Shapes: indices as read_indices().
void send_heads(const Group& group, const Source& source, std::span<const BlockIndex> indices,
                const std::function<int(BlockIndex)>& target, const Communicator::Consume& consume);

/// Numbers as bytes, and back.
Bytes bytes_of(const std::vector<std::uint32_t>& numbers);
std::vector<std::uint32_t> numbers_of(const Bytes& bytes);

}  // namespace spmm::mpi
