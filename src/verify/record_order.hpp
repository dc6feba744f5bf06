// Records that come in pieces, in any order: do they ascend as a whole, without a gap and without a block twice?
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// Two records that do not ascend.
struct OrderFlaw {
  std::uint64_t record = 0;  ///< the second one
  BlockIndex before;
  BlockIndex at;

  [[nodiscard]] bool is_duplicate() const { return before == at; }
};

/// The order of one file. Memory: an entry for each piece that touches no other one yet. Threads: any.
class RecordOrder {
 public:
  explicit RecordOrder(std::uint64_t record_bytes) : record_bytes_(record_bytes) {}

  /// Takes whole records, each once; `first` = how many are in front of them. Returns the first flaw.
  std::optional<OrderFlaw> add(std::uint64_t first, std::span<const std::byte> records);

  /// Whether exactly the records [0, count) have come.
  [[nodiscard]] bool is_whole(std::uint64_t count) const;

  /// How many have come.
  [[nodiscard]] std::uint64_t count() const;

 private:
  struct SeenRecords {
    std::uint64_t end = 0;
    BlockIndex first;
    BlockIndex last;
  };

  std::optional<OrderFlaw> join(std::uint64_t first, SeenRecords piece);

  std::uint64_t record_bytes_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, SeenRecords> pieces_;  // by first record; none touches the next
  std::uint64_t count_ = 0;
};

}  // namespace spmm
