// Temporary files that have a name: removed also when a signal handler ends the process.
#pragma once

#include <climits>
#include <csignal>
#include <string>

namespace spmm {

/// While it lives, no signal is handled on this thread and remove_temporary_files() waits on the others. For a few
/// system calls that must not be torn apart, such as creating a file and keeping its name; not nested on one thread.
/// Once remove_temporary_files() was called, the constructor does not return: the process is about to end.
class ProtectedSection {
 public:
  ProtectedSection();
  ~ProtectedSection();
  ProtectedSection(const ProtectedSection&) = delete;
  ProtectedSection& operator=(const ProtectedSection&) = delete;

 private:
  sigset_t before_{};
};

/// While it lives, an output is being given its name: the process does not end by try_remove_temporary_files(), so that
/// an output that appears is the output of a product that succeeds. May be nested.
class Publication {
 public:
  Publication();
  ~Publication();
  Publication(const Publication&) = delete;
  Publication& operator=(const Publication&) = delete;
};

/// The name of one temporary file, known to remove_temporary_files() while it is set.
/// Memory: the folder's descriptor must stay open as long as the name is set.
class TemporaryName {
 public:
  TemporaryName() = default;
  /// Removes the file if the name is still set.
  ~TemporaryName();
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;

  [[nodiscard]] bool is_set() const { return name_[0] != '\0'; }
  [[nodiscard]] const char* c_str() const { return name_; }

  /// In the section that creates the file. Values: name has at most NAME_MAX bytes.
  void set(const ProtectedSection& section, int folder_fd, const std::string& name);
  /// The name is gone: renamed. In the section that renames.
  void forget(const ProtectedSection& section);
  /// Removes the file.
  void remove(const ProtectedSection& section);

 private:
  friend void unlink_temporary_files() noexcept;

  int folder_fd_ = -1;
  char name_[NAME_MAX + 1] = "";
  TemporaryName* previous_ = nullptr;
  TemporaryName* following_ = nullptr;
};

/// Removes the temporary files of this process, which must end at once afterwards (_exit). Waits for the protected
/// sections of other threads. May be called by a signal handler: it uses lock-free atomics, nanosleep and unlinkat.
void remove_temporary_files() noexcept;

/// The same unless a Publication has begun and not ended: then it returns false and the process must go on.
[[nodiscard]] bool try_remove_temporary_files() noexcept;

}  // namespace spmm
