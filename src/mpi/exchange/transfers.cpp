// Lists and records sent to the ranks that want them.
#include "mpi/exchange/transfers.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "mpi/exchange/record_store.hpp"
#include "mpi/exchange/row_ranges.hpp"
#include "spmm/error.hpp"

namespace spmm::mpi {
namespace {

constexpr std::uint64_t kReadBytes = 1u << 20;
constexpr std::uint64_t kNumSamples = 128;  // of each rank

}  // namespace

Share share_of(std::uint64_t num_records, int rank, int num_ranks) {
  const auto part = static_cast<std::uint64_t>(rank);
  const auto parts = static_cast<std::uint64_t>(num_ranks);
  return {.begin = num_records * part / parts, .end = num_records * (part + 1) / parts};
}

void Group::check_cancelled() const {
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
    throw Interrupted("spmm-mpi", "interrupted", "nothing was written, it is safe to run it again");
  }
}

std::vector<Bytes> swap_lists(const Group& group, const std::vector<Bytes>& to) {
  const std::uint64_t most = std::max<std::uint64_t>(1, group.ranks.round_bytes() / to.size());
  std::vector<Bytes> from(to.size());
  std::uint64_t done = 0;
  group.ranks.exchange(
      [&](std::vector<Bytes>& now) {
        group.check_cancelled();
        bool more = false;
        for (std::size_t r = 0; r < to.size(); ++r) {
          const std::uint64_t begin = std::min<std::uint64_t>(done, to[r].size());
          const std::uint64_t end = std::min<std::uint64_t>(done + most, to[r].size());
          now[r].assign(to[r].data() + begin, to[r].data() + end);
          more = more || end < to[r].size();
        }
        done += most;
        return more;
      },
      [&](int source, std::span<const std::byte> bytes) {
        Bytes& list = from[static_cast<std::size_t>(source)];
        list.insert(list.end(), bytes.begin(), bytes.end());
      });
  return from;
}

void read_share(const Group& group, const Source& source, const ReadPiece& body) {
  const std::uint64_t record = input_record_bytes(source.header().m);
  const std::uint64_t most = std::max<std::uint64_t>(1, kReadBytes / record);
  const Share share = share_of(source.header().num_blocks, group.ranks.rank(), group.ranks.size());
  const AlignedArray<std::byte> raw(std::min(most, share.end - share.begin) * record);
  for (std::uint64_t first = share.begin; first < share.end; first += most) {
    group.check_cancelled();
    const std::uint64_t count = std::min(most, share.end - first);
    source.read(first, count, raw.data());
    body(first, raw.data(), count);
  }
}

void check_indices(const Source& source, std::uint64_t first, const std::byte* records, std::uint64_t count) {
  const std::uint64_t record = input_record_bytes(source.header().m);
  const std::uint32_t nb = source.header().blocks_per_side();
  for (std::uint64_t r = 0; r < count; ++r, records += record) {
    const BlockIndex at = read_index(records);
    if (at.i >= nb || at.j >= nb) throw_index_out_of_range(source, first + r, at);
  }
}

std::vector<std::uint32_t> sampled_rows(const Group& group, const Source& source) {
  const Share share = share_of(source.header().num_blocks, group.ranks.rank(), group.ranks.size());
  const std::uint64_t count = std::min(kNumSamples, share.end - share.begin);
  const AlignedArray<std::byte> raw(input_record_bytes(source.header().m));
  std::vector<std::uint32_t> rows;
  for (std::uint64_t s = 0; s < count; ++s) {
    source.read(share.begin + (share.end - share.begin) * s / count, 1, raw.data());
    rows.push_back(read_index(raw.data()).i);
  }
  return rows;
}

std::vector<std::uint32_t> split_rows(const Group& group, const std::vector<std::uint32_t>& own_samples) {
  std::vector<std::uint32_t> samples;
  for (const Bytes& some : group.ranks.gather(bytes_of(own_samples))) {
    const std::vector<std::uint32_t> rows = numbers_of(some);
    samples.insert(samples.end(), rows.begin(), rows.end());
  }
  return split_by_samples(std::move(samples), static_cast<std::uint32_t>(group.ranks.size()));
}

void send_records(const Group& group, const Source& source, std::uint64_t sent_bytes,
                  const std::function<int(BlockIndex)>& target, const Communicator::Consume& consume) {
  const std::uint64_t record = input_record_bytes(source.header().m);
  const std::uint64_t most = std::max<std::uint64_t>(1, std::min(kReadBytes, group.ranks.round_bytes()) / record);
  const Share share = share_of(source.header().num_blocks, group.ranks.rank(), group.ranks.size());
  const AlignedArray<std::byte> raw(std::min(most, share.end - share.begin) * record);
  std::uint64_t first = share.begin;
  group.ranks.exchange(
      [&](std::vector<Bytes>& to) {
        // Pieces of a read until a round is full: each of them is taken apart while it is in the cache.
        for (std::uint64_t sent = 0;
             first < share.end && (sent == 0 || sent + most * record <= group.ranks.round_bytes());) {
          group.check_cancelled();
          const std::uint64_t count = std::min(most, share.end - first);
          source.read(first, count, raw.data());
          check_indices(source, first, raw.data(), count);
          for (const std::byte* at = raw.data(); at != raw.data() + count * record; at += record, ++first) {
            Bytes& bytes = to[static_cast<std::size_t>(target(read_index(at)))];
            const std::size_t before = bytes.size();
            const auto number = static_cast<std::uint32_t>(first);
            bytes.resize(before + sent_bytes);
            std::memcpy(bytes.data() + before, &number, kNumberBytes);
            std::memcpy(bytes.data() + before + kNumberBytes, at, sent_bytes - kNumberBytes);
          }
          sent += count * record;
        }
        return first < share.end;
      },
      consume);
}

void send_heads(const Group& group, const Source& source, std::span<const BlockIndex> indices,
                const std::function<int(BlockIndex)>& target, const Communicator::Consume& consume) {
  const Share share = share_of(source.header().num_blocks, group.ranks.rank(), group.ranks.size());
  const std::uint64_t most = std::max<std::uint64_t>(1, group.ranks.round_bytes() / kSentHeadBytes);
  std::uint64_t done = 0;
  group.ranks.exchange(
      [&](std::vector<Bytes>& to) {
        group.check_cancelled();
        for (const std::uint64_t end = std::min<std::uint64_t>(done + most, indices.size()); done < end; ++done) {
          std::array<std::byte, kSentHeadBytes> head;
          const auto number = static_cast<std::uint32_t>(share.begin + done);
          std::memcpy(head.data(), &number, kNumberBytes);
          write_index(head.data() + kNumberBytes, indices[done]);
          Bytes& bytes = to[static_cast<std::size_t>(target(indices[done]))];
          bytes.insert(bytes.end(), head.begin(), head.end());
        }
        return done < indices.size();
      },
      consume);
}

Bytes bytes_of(const std::vector<std::uint32_t>& numbers) {
  Bytes bytes(numbers.size() * sizeof(std::uint32_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::vector<std::uint32_t> numbers_of(const Bytes& bytes) {
  std::vector<std::uint32_t> numbers(bytes.size() / sizeof(std::uint32_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint32_t));
  return numbers;
}

}  // namespace spmm::mpi
