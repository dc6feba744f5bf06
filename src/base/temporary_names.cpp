// Names of temporary files that a signal handler can remove, and the sections in which it may not.
#include "base/temporary_names.hpp"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

namespace spmm {
namespace {

std::atomic<unsigned> num_sections{0};
std::atomic<unsigned> num_publications{0};
std::atomic<unsigned> num_ends{0};  // that have begun and were not given up
static_assert(std::atomic<unsigned>::is_always_lock_free, "signal handlers use them");

// The list of names is changed inside protected sections only, of which the mutex keeps those of several threads apart.
// remove_temporary_files() reads it when no section is left and none can begin.
std::mutex names_mutex;
TemporaryName* first_name = nullptr;

void sleep_1_ms() {
  const timespec length{.tv_sec = 0, .tv_nsec = 1'000'000};
  nanosleep(&length, nullptr);
}

/// Adds to a number that the end of the process waits for, or asks for. Does not return while the process ends.
void enter(std::atomic<unsigned>& number) {
  while (true) {
    // Sequentially consistent, as where an end begins: one of the two sees the other.
    number.fetch_add(1);
    if (num_ends.load() == 0) return;
    number.fetch_sub(1);
    while (num_ends.load() != 0) sleep_1_ms();
  }
}

}  // namespace

ProtectedSection::ProtectedSection() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
  enter(num_sections);
}

ProtectedSection::~ProtectedSection() {
  num_sections.fetch_sub(1);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Publication::Publication() {
  enter(num_publications);
}

Publication::~Publication() {
  num_publications.fetch_sub(1);
}

TemporaryName::~TemporaryName() {
  if (!is_set()) return;
  const ProtectedSection section;
  remove(section);
}

void TemporaryName::set(const ProtectedSection&, int folder_fd, const std::string& name) {
  const std::lock_guard lock(names_mutex);
  folder_fd_ = folder_fd;
  name_[name.copy(name_, NAME_MAX)] = '\0';
  following_ = first_name;
  if (first_name != nullptr) first_name->previous_ = this;
  first_name = this;
}

void TemporaryName::forget(const ProtectedSection&) {
  const std::lock_guard lock(names_mutex);
  (previous_ == nullptr ? first_name : previous_->following_) = following_;
  if (following_ != nullptr) following_->previous_ = previous_;
  previous_ = following_ = nullptr;
  name_[0] = '\0';
}

void TemporaryName::remove(const ProtectedSection& section) {
  ::unlinkat(folder_fd_, name_, 0);
  forget(section);
}

/// No section can begin any more.
void unlink_temporary_files() noexcept {
  while (num_sections.load() != 0) sleep_1_ms();
  for (const TemporaryName* name = first_name; name != nullptr; name = name->following_) {
    ::unlinkat(name->folder_fd_, name->name_, 0);
  }
}

void remove_temporary_files() noexcept {
  num_ends.fetch_add(1);
  unlink_temporary_files();
}

bool try_remove_temporary_files() noexcept {
  num_ends.fetch_add(1);
  if (num_publications.load() != 0) {
    num_ends.fetch_sub(1);
    return false;
  }
  unlink_temporary_files();
  return true;
}

}  // namespace spmm
