// The folder of a result in parts: made, locked, exchanged with an old one.
#include "io/parts/folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "io/files/output_file.hpp"
#include "io/formats/parts_index.hpp"
#include "io/system/retried.hpp"
#include "io/system/unused_name.hpp"
#include "spmm/error.hpp"

namespace spmm::io {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Descriptor open_folder_at(int parent, const char* name) {
  return Descriptor(retried([&] { return ::openat(parent, name, kFolderFlags); }));
}

/// Locks an open folder for this process, if no other one has locked it. Returns 0 or the error.
int lock_folder(const Descriptor& folder, std::chrono::seconds patience = kLockPatience) {
  return lock_within(folder.get(), LOCK_EX | LOCK_NB, patience);
}

/// The names in an open folder. Errors: IoError.
std::vector<std::string> names_in(int folder_fd, const std::string& name) {
  Descriptor own = open_folder_at(folder_fd, ".");
  struct Closed {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  const std::unique_ptr<DIR, Closed> dir(own.is_open() ? ::fdopendir(own.get()) : nullptr);
  if (!dir) throw IoError(name, text("cannot list the folder (", error_text(errno), ")"), "ask for read permission");
  own.disown();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string found = entry->d_name;
    if (found != "." && found != "..") names.push_back(found);
  }
  return names;
}

/// The files of a folder that may be replaced. Errors: FormatError, IoError: why it may not be.
std::vector<std::string> replaceable_files(int folder_fd, const std::string& name) {
  const PartsIndex index = read_index_at(folder_fd, name);
  std::vector<std::string> found = names_in(folder_fd, name);
  for (const std::string& file : found) {
    const bool is_named = file == kIndexName || std::any_of(index.parts.begin(), index.parts.end(),
                                                            [&](const auto& part) { return part.file == file; });
    if (is_named) continue;
    throw FormatError(name, text("holds ", file, ", which its index does not name"), "move it away");
  }
  return found;
}

/// The same as an error of the output. Errors: OutputError.
std::vector<std::string> require_replaceable(int folder_fd, const std::string& name) {
  try {
    return replaceable_files(folder_fd, name);
  } catch (const Error& error) {
    throw OutputError(name, text("the existing folder is not replaced (", error.what(), ")"),
                      "remove it or choose another output path: only a result in parts and nothing else is replaced");
  }
}

/// Only files that folders of parts hold are removed.
void remove_leftover(int parent, const std::string& name, const Descriptor& folder) {
  try {
    for (const std::string& file : names_in(folder.get(), name)) {
      if (!is_part_file_name(file) || ::unlinkat(folder.get(), file.c_str(), 0) == 0) continue;
      ::unlinkat(folder.get(), file.c_str(), AT_REMOVEDIR);
    }
  } catch (const IoError&) {
  }
  ::unlinkat(parent, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

Target place_inside(int folder_fd, const std::string& file_name, const std::string& name, const std::string& folder) {
  Target place;
  place.name = name + "/" + file_name;
  place.folder = folder;
  place.file_name = file_name;
  place.folder_fd = Descriptor(::fcntl(folder_fd, F_DUPFD_CLOEXEC, 0));
  if (place.folder_fd.is_open()) return place;
  throw OutputError(place.name, text("cannot open the file (", error_text(errno), ")"),
                    "write fewer parts, or raise the limit of open files (ulimit -n)");
}

PartsFolder::PartsFolder(const std::filesystem::path& path, const FileSinkOptions& options,
                         std::vector<std::string> file_names, OtherRuns other_runs)
    : options_(options),
      other_runs_(other_runs),
      target_(find_folder_target(path, options.no_clobber)),
      file_names_(std::move(file_names)) {
  if (target_.exists) {
    const Descriptor old = open_folder_at(target_.folder_fd.get(), target_.file_name.c_str());
    if (!old.is_open()) {
      throw OutputError(target_.name, text("cannot open the existing folder (", error_text(errno), ")"),
                        "ask for read permission, or choose another output path");
    }
    static_cast<void>(require_replaceable(old.get(), target_.name));
  }
  remove_leftovers();
  create();
  if (other_runs_ == OtherRuns::refused) remove_leftovers();  // of two that come at once none has seen the other before
  if (target_.exists) check_exchange();
}

/// Removes temporary folders of earlier runs to this target whose process has ended: their lock is free.
void PartsFolder::remove_leftovers() const {
  std::vector<std::string> names;
  try {
    names = names_in(target_.folder_fd.get(), target_.folder);
  } catch (const IoError&) {
    return;  // a folder that may be written but not listed
  }
  for (const std::string& name : names) {
    if (!is_temp_name_of(target_.file_name, name) || name == temp_name_.c_str()) continue;
    const Descriptor folder = open_folder_at(target_.folder_fd.get(), name.c_str());
    if (!folder.is_open()) continue;
    const int error = lock_folder(folder);
    if (error == ETIMEDOUT) throw_no_lock(target_.name);
    if (error == 0) {
      remove_leftover(target_.folder_fd.get(), name, folder);
    } else if (error == EWOULDBLOCK && other_runs_ == OtherRuns::refused) {
      throw OutputError(target_.name, text("another run writes it now: it holds ", target_.folder, "/", name),
                        "wait for that run, or choose another output path");
    }
  }
}

/// The lock is acquired outside of the section that makes the folder: a signal need not wait for a file server.
void PartsFolder::create() {
  constexpr int kMaxAttempts = 100;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    make();
    if (lock()) return;
  }
  throw OutputError(target_.name, text("the temporary folder is removed by another process, in ", target_.folder),
                    "look for what removes folders there, or choose another output path");
}

void PartsFolder::make() {
  const int parent = target_.folder_fd.get();
  const ProtectedSection section;
  const std::string name = with_unused_name(target_.file_name, [&](const char* unused) {
    if (::mkdirat(parent, unused, target_.exists ? S_IRWXU : 0777) != 0) return false;
    folder_ = open_folder_at(parent, unused);
    if (folder_.is_open()) return true;
    const int error = errno == ENOENT ? EEXIST : errno;  // ENOENT: another run has taken it for a leftover
    ::unlinkat(parent, unused, AT_REMOVEDIR);
    errno = error;
    return false;
  });
  if (!name.empty()) return temp_name_.set_folder(section, parent, name, folder_.get(), file_names_);
  throw_no_temporary(target_, "folder");
}

/// False if another run has taken the new folder for a leftover before it was locked.
bool PartsFolder::lock() {
  const int error = lock_folder(folder_);
  if (error == ETIMEDOUT) throw_no_lock(target_.name);
  struct stat info {};
  const bool is_known = ::fstat(folder_.get(), &info) == 0;
  if (!is_known) {
    throw OutputError(target_.name, text("cannot look at the temporary folder (", error_text(errno), ")"),
                      "check the disk or the connection to it, then run again");
  }
  if (error != EWOULDBLOCK && info.st_nlink != 0) return true;
  const ProtectedSection section;
  temp_name_.remove(section);
  return false;
}

/// Tries on two folders inside the new one what publish() will do: it would be too late to find out there.
void PartsFolder::check_exchange() {
  constexpr const char* kOne = "part-0.bin";
  constexpr const char* kOther = "part-1.bin";
  const int folder = folder_.get();
  const bool are_made = ::mkdirat(folder, kOne, S_IRWXU) == 0 && ::mkdirat(folder, kOther, S_IRWXU) == 0;
  const bool works = are_made && ::renameat2(folder, kOne, folder, kOther, RENAME_EXCHANGE) == 0;
  const int error = errno;
  ::unlinkat(folder, kOne, AT_REMOVEDIR);
  ::unlinkat(folder, kOther, AT_REMOVEDIR);
  if (works) return;
  throw OutputError(
      target_.name,
      text("the existing folder cannot be replaced at once on this file system (", error_text(error), ")"),
      "remove it or choose another output path");
}

Target PartsFolder::place_of(const std::string& file_name) const {
  return place_inside(folder_.get(), file_name, target_.name, target_.folder);
}

std::filesystem::path PartsFolder::temporary_path() const {
  return std::filesystem::absolute(std::filesystem::path(target_.folder) / temp_name_.c_str());
}

void PartsFolder::write_index(const PartsIndex& index) const {
  const std::string content = index_text(index);
  OutputFile file(place_of(kIndexName), {.durable = options_.durable}, TempKind::automatic, WriteMode::pwrite);
  file.write_at(0, std::as_bytes(std::span(content)));
  file.finish();
  file.publish();
}

void PartsFolder::publish() {
  const Publication publication;
  if (target_.exists) keep_permissions(folder_.get(), target_, "folder");
  {
    const ProtectedSection section;
    if (target_.exists || !take_free_name(section)) exchange(section);
  }
  if (options_.durable) sync_folder(target_);
  if (!temp_name_.is_set()) return;
  const ProtectedSection section;
  temp_name_.remove(section);
}

/// False where another folder has come there meanwhile that may be replaced.
bool PartsFolder::take_free_name(const ProtectedSection& section) {
  const int parent = target_.folder_fd.get();
  const char* const name = target_.file_name.c_str();
  int result = ::renameat2(parent, temp_name_.c_str(), parent, name, RENAME_NOREPLACE);
  if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {  // the file system cannot; at most an empty folder goes
    result = ::renameat(parent, temp_name_.c_str(), parent, name);
  }
  if (result == 0) {
    temp_name_.forget(section);
    return true;
  }
  if (errno != EEXIST || options_.no_clobber) fail_to_publish(errno);
  return false;
}

void PartsFolder::exchange(const ProtectedSection& section) {
  const int parent = target_.folder_fd.get();
  const char* const name = target_.file_name.c_str();
  const std::string temp_name = temp_name_.c_str();
  const auto swap_names = [&] { return ::renameat2(parent, temp_name.c_str(), parent, name, RENAME_EXCHANGE) == 0; };
  old_ = open_folder_at(parent, name);
  if (!old_.is_open() && errno == ENOENT) {  // removed meanwhile
    if (take_free_name(section)) return;
    fail_to_publish(EEXIST);
  }
  if (!old_.is_open()) fail_to_publish(errno);
  // It will look like a leftover for as long as it is being removed; signals wait for this section.
  static_cast<void>(lock_folder(old_, std::chrono::seconds(1)));
  if (!swap_names()) fail_to_publish(errno);
  // The old one has no name any more: what it holds now is what would be lost.
  try {
    struct stat opened {};
    struct stat moved {};
    const bool is_same = ::fstat(old_.get(), &opened) == 0 &&
                         ::fstatat(parent, temp_name.c_str(), &moved, AT_SYMLINK_NOFOLLOW) == 0 &&
                         opened.st_ino == moved.st_ino && opened.st_dev == moved.st_dev;
    if (!is_same) fail_to_publish(EEXIST);
    old_names_ = require_replaceable(old_.get(), target_.name);
  } catch (...) {
    swap_names();
    throw;
  }
  temp_name_.forget(section);
  temp_name_.set_folder(section, parent, temp_name, old_.get(), old_names_);
}

void PartsFolder::fail_to_publish(int error) const {
  throw_publish_error(target_, "folder", error, options_.no_clobber);
}

}  // namespace spmm::io
