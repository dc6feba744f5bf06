// Kept items by file, oldest first.
#include "base/memory/kept_items.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace spmm {
namespace {

bool is_among(const SourceIdentity& one, std::span<const SourceIdentity> all) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

const KeptItems::Entry* KeptItems::find(const SourceIdentity& identity) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.identity == identity; });
  return found == entries_.end() ? nullptr : &*found;
}

const KeptItems::Entry* KeptItems::find(Id id) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.id == id; });
  return found == entries_.end() ? nullptr : &*found;
}

std::list<KeptItems::Entry>::iterator KeptItems::at(Id id) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.id == id; });
  if (found == entries_.end()) throw std::logic_error("no kept item of this number");
  return found;
}

KeptItems::Id KeptItems::promise(const SourceIdentity& identity) {
  entries_.remove_if([&](const Entry& e) { return e.is_idle() && e.identity.is_other_state(identity); });
  entries_.push_back({.id = last_id_ + 1, .identity = identity, .bytes = 0, .num_users = 0, .item = nullptr});
  return ++last_id_;
}

void KeptItems::provide(Id id, std::uint64_t bytes, Item item) {
  Entry& entry = *at(id);
  entry.bytes = bytes;
  entry.num_users = 1;
  entry.item = std::move(item);
}

void KeptItems::withdraw(Id id) {
  entries_.erase(at(id));
}

KeptItems::Item KeptItems::use(Id id) {
  const auto entry = at(id);
  ++entry->num_users;
  entries_.splice(entries_.end(), entries_, entry);
  return entry->item;
}

void KeptItems::end_use(Id id) {
  --at(id)->num_users;
}

std::uint64_t KeptItems::idle_bytes(std::span<const SourceIdentity> except) const {
  std::uint64_t bytes = 0;
  for (const Entry& e : entries_) bytes += e.is_idle() && !is_among(e.identity, except) ? e.bytes : 0;
  return bytes;
}

bool KeptItems::drop_oldest(std::span<const SourceIdentity> except) {
  const auto oldest = std::find_if(entries_.begin(), entries_.end(),
                                   [&](const Entry& e) { return e.is_idle() && !is_among(e.identity, except); });
  if (oldest == entries_.end()) return false;
  entries_.erase(oldest);
  return true;
}

}  // namespace spmm
