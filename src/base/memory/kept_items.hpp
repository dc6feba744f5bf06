// What stays in device memory for later products: which file it stands for, who uses it, what goes first. Bookkeeping
// alone: neither threads nor CUDA.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>

#include "spmm/stream.hpp"

namespace spmm {

/// Items by the identity of their file, least recently used first. An item without a user is idle; only idle items
/// are dropped. An item may be promised before it is there. Threads: one at a time.
class KeptItems {
 public:
  using Item = std::shared_ptr<const void>;
  using Id = std::uint64_t;  // never given out twice; 0 is none

  struct Entry {
    Id id = 0;
    SourceIdentity identity;
    std::uint64_t bytes = 0;
    unsigned num_users = 0;
    Item item;  // null while it is promised

    [[nodiscard]] bool is_ready() const { return item != nullptr; }
    [[nodiscard]] bool is_idle() const { return item != nullptr && num_users == 0; }
  };

  /// Null if there is none. Valid until something is dropped or withdrawn.
  [[nodiscard]] const Entry* find(const SourceIdentity& identity) const;
  [[nodiscard]] const Entry* find(Id id) const;

  /// Adds an entry that waits for its item; there must be none of this identity. Drops idle items of the same file as
  /// it was before.
  Id promise(const SourceIdentity& identity);
  /// The item of a promised entry, with one user.
  void provide(Id id, std::uint64_t bytes, Item item);
  /// Removes a promised entry.
  void withdraw(Id id);

  /// One user more of an entry that is ready; it counts as used last.
  Item use(Id id);
  void end_use(Id id);

  /// Bytes of idle items but those of some files.
  [[nodiscard]] std::uint64_t idle_bytes(std::span<const SourceIdentity> except = {}) const;
  /// Drops the idle item that was used longest ago, but none of some files; false if there is none.
  bool drop_oldest(std::span<const SourceIdentity> except = {});

 private:
  std::list<Entry>::iterator at(Id id);

  std::list<Entry> entries_;  // used longest ago first
  Id last_id_ = 0;
};

}  // namespace spmm
