// Output files: a temporary one, its bytes, and the rename that shows it.
#include "io/files/output_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "io/formats/format.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/error.hpp"

namespace spmm::io {
namespace {

std::string free_space_text(int fd) {
  struct statvfs info {};
  if (retried([&] { return ::fstatvfs(fd, &info); }) != 0) return "";
  return text(" (free there now: ", human_bytes(std::uint64_t{info.f_bavail} * info.f_frsize), ")");
}

void raise_to(std::atomic<std::uint64_t>& number, std::uint64_t value) {
  std::uint64_t before = number.load();
  while (before < value && !number.compare_exchange_weak(before, value)) {
  }
}

/// Whether the name is still that of the open file. True if that cannot be known.
bool is_file_there(int fd, int folder_fd, const char* name) {
  struct stat opened {};
  struct stat named {};
  if (::fstatat(folder_fd, name, &named, AT_SYMLINK_NOFOLLOW) != 0) return errno != ENOENT;
  return ::fstat(fd, &opened) != 0 || (opened.st_ino == named.st_ino && opened.st_dev == named.st_dev);
}

/// ".NAME.spmm-": a long NAME is cut between UTF-8 characters, so that the whole name stays legal.
std::string temp_name_begin(const std::string& file_name) {
  constexpr std::size_t kAddedBytes = sizeof("..spmm-XXXXXX.tmp") - 1;
  std::size_t length = std::min(file_name.size(), NAME_MAX - kAddedBytes);
  while (length < file_name.size() && length > 0 && (file_name[length] & 0xC0) == 0x80) --length;
  return "." + file_name.substr(0, length) + ".spmm-";
}

/// ".NAME.spmm-XXXXXX.tmp", six random letters.
std::string temp_name_for(const std::string& file_name) {
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t kNumLetters = 6;
  std::random_device random;
  std::string name = temp_name_begin(file_name);
  for (std::size_t i = 0; i < kNumLetters; ++i) name += kLetters[random() % kLetters.size()];
  return name + ".tmp";
}

/// Renames a temporary file unless the other name is taken, on file systems without RENAME_NOREPLACE (NFS) as well.
/// Returns 0 or the error; after an error the temporary name is still there.
int rename_if_unused(int folder_fd, const char* temp_name, const char* name) {
  if (::renameat2(folder_fd, temp_name, folder_fd, name, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // The file system cannot: a link does not replace either.
  if (::linkat(folder_fd, temp_name, folder_fd, name, 0) != 0) return errno;
  ::unlinkat(folder_fd, temp_name, 0);
  return 0;
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path, const FileSinkOptions& options, TempKind kind, bool maps)
    : options_(options), target_(find_target(path, options.no_clobber)) {
  if (target_.is_device) {
    open_device();
    return;
  }
  // A new file gets what the umask allows; one that replaces another gets the other's bits, and none too many before.
  const mode_t mode = target_.exists ? S_IRUSR | S_IWUSR : 0666;
  if (kind != TempKind::automatic || !open_unnamed(mode)) open_named(mode, kind == TempKind::shared);
  // A file with a name could be cut by others (network file systems hold no other kind): a SIGBUS.
  maps_ = maps && !temp_name_.is_set() && may_map_files_of(fd_.get());
  if (target_.exists) keep_permissions(fd_.get(), target_);
}

OutputFile::OutputFile(const std::string& name, Descriptor file, bool is_device, const FileSinkOptions& options)
    : options_(options), fd_(std::move(file)) {
  target_.name = name;
  target_.folder = std::filesystem::path(name).parent_path().string();
  if (target_.folder.empty()) target_.folder = ".";
  target_.is_device = is_device;
}

std::filesystem::path OutputFile::temporary_path() const {
  if (target_.is_device) return std::filesystem::absolute(target_.name);
  return std::filesystem::absolute(std::filesystem::path(target_.folder) / temp_name_.c_str());
}

void OutputFile::open_device() {
  fd_ = Descriptor(retried([&] { return ::open(target_.name.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY); }));
  if (!fd_.is_open()) {
    throw OutputError(target_.name, text("cannot open the device (", error_text(errno), ")"),
                      "ask for write permission or choose another output path");
  }
  if (::lseek(fd_.get(), 0, SEEK_CUR) >= 0) return;
  throw OutputError(target_.name, "is a device that cannot seek, expected a file",
                    "write to a file: the header is written last");
}

bool OutputFile::open_unnamed(mode_t mode) {
  constexpr int kFlags = O_TMPFILE | O_RDWR | O_CLOEXEC;  // a writable mapping needs both
  fd_ = Descriptor(retried([&] { return ::openat(target_.folder_fd.get(), ".", kFlags, mode); }));
  // Without /proc the file could not be given a name at the end.
  if (fd_.is_open() && ::access(descriptor_path(fd_.get()).c_str(), F_OK) != 0) fd_ = Descriptor();
  return fd_.is_open();
}

/// A file with a name; that of several processes is locked until it is closed, so that other runs see that it is in
/// use. The lock is acquired outside of the section that makes the file: a signal need not wait for a file server.
void OutputFile::open_named(mode_t mode, bool is_shared) {
  constexpr int kFlags = O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC;
  constexpr int kMaxAttempts = 100;
  const int folder = target_.folder_fd.get();
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const std::string name =
        is_shared ? temp_name_begin(target_.file_name) + "mpi.tmp" : temp_name_for(target_.file_name);
    {
      const ProtectedSection section;
      fd_ = Descriptor(retried([&] { return ::openat(folder, name.c_str(), kFlags, mode); }));
      if (fd_.is_open()) temp_name_.set(section, folder, name);
    }
    if (!fd_.is_open()) {
      if (errno != EEXIST) throw_no_temporary(target_);
      if (is_shared) remove_abandoned(name);
      continue;
    }
    if (!is_shared) return;
    const int error = try_lock(fd_.get());
    // Other errors: a file system without locks.
    if (error == 0 ? is_file_there(fd_.get(), folder, name.c_str()) : error != EWOULDBLOCK) return;
    const ProtectedSection section;
    temp_name_.forget(section);  // another run has taken it for that of a killed one, and has the name now
  }
  throw OutputError(target_.name, text("the temporary file is removed by another process, in ", target_.folder),
                    "look for what removes files there, or choose another output path");
}

/// The lock of a killed run is free. Errors: OutputError (another run holds it, or there are no locks).
void OutputFile::remove_abandoned(const std::string& name) const {
  const int folder = target_.folder_fd.get();
  const std::string path = target_.folder + "/" + name;
  const Descriptor found(retried([&] { return ::openat(folder, name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW); }));
  if (!found.is_open() && errno == ENOENT) return;
  const int error = found.is_open() ? try_lock(found.get()) : errno;
  if (error == EWOULDBLOCK) {
    throw OutputError(target_.name, text("another run writes it now: it holds ", path),
                      "wait for that run, or choose another output path");
  }
  if (error != 0) {
    throw OutputError(target_.name, text("cannot lock ", path, " (", error_text(error), ")"),
                      "choose an output path on a file system that has locks");
  }
  if (is_file_there(found.get(), folder, name.c_str())) ::unlinkat(folder, name.c_str(), 0);
}

void OutputFile::expect_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kLeastBytes = 16u << 20;  // a shorter file is written before its space is reserved
  constexpr std::uint64_t kSmallStep = MappedFile::kRangeBytes;
  constexpr std::uint64_t kLargeStep = 4 * kSmallStep;
  expected_bytes_ = bytes;
  if (!reserves_ || target_.is_device || bytes < kLeastBytes || bytes <= reserved_bytes_) return;
  const std::uint64_t step = bytes <= kLargeStep ? kSmallStep : kLargeStep;
  const std::uint64_t end = (bytes + step - 1) / step * step;
  rlimit limit{};
  const bool may_be_that_long =
      ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur);
  reserves_ = may_be_that_long;
  if (reserves_) reserve(end);
}

void OutputFile::reserve(std::uint64_t end) {
  const auto call = [&] {
    return ::fallocate(fd_.get(), 0, static_cast<off_t>(reserved_bytes_), static_cast<off_t>(end - reserved_bytes_));
  };
  // Refused (no such call there, or not that much space): the writes will tell what really does not fit. ext4 may have
  // made the file longer all the same; finish() cuts it.
  reserves_ = retried(call) == 0;
  if (!reserves_) return;
  if (maps_) maps_ = mapped_.add(fd_.get(), reserved_bytes_, end);
  reserved_bytes_ = end;
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t end = offset + bytes.size();
  while (offset < end) {
    int error = 0;
    std::size_t put = mapped_.write(offset, bytes);
    const bool is_mapped = put != 0;
    if (!is_mapped) put = io::write_at(fd_.get(), offset, bytes, error);
    written_bytes_ += put;
    offset += put;
    if (!is_mapped && put < bytes.size()) throw_write_error(error, offset);
    bytes = bytes.subspan(put);
  }
  raise_to(end_bytes_, end);
}

bool OutputFile::read_at(std::uint64_t offset, std::span<std::byte> dst) const {
  if (target_.is_device) return false;
  int error = 0;
  const std::size_t got = io::read_at(fd_.get(), offset, dst, error);
  if (got == dst.size()) return true;
  throw IoError(at_offset(target_.name, offset + got),
                text("reading the output again failed (", error == 0 ? "it ends there" : error_text(error), ")"),
                "check the disk or the connection to it, then run again");
}

void OutputFile::finish(const MatrixHeader& header) {
  const HeaderBytes bytes = encode_header(header);
  mapped_.unmap_all();
  write_at(0, bytes);
  finish();
}

void OutputFile::finish(const MatrixHeader& header, std::uint64_t end) {
  write_at(0, encode_header(header));
  end_bytes_ = end;
  finish();
}

void OutputFile::finish() {
  // Whatever was reserved, also if that failed half-way: the file ends behind the last byte written.
  const auto cut = [&] { return ::ftruncate(fd_.get(), static_cast<off_t>(end_bytes_.load())); };
  if (!target_.is_device && retried(cut) != 0) throw_write_error(errno, end_bytes_);
  flush();
  finished_ = true;
}

void OutputFile::flush() {
  // Closing a duplicate makes network file systems report delayed errors (quota, space) before the file is shown.
  const int duplicate = ::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0);
  if (duplicate >= 0 && ::close(duplicate) != 0 && errno != EINTR) throw_write_error(errno, written_bytes_);
  if (options_.durable && !target_.is_device && retried([&] { return ::fsync(fd_.get()); }) != 0) {
    throw_write_error(errno, written_bytes_);
  }
}

void OutputFile::publish() {
  if (!finished_ || published_) throw std::logic_error(target_.name + ": publish() without finish(), or twice");
  const Publication publication;
  if (!target_.is_device) {
    if (temp_name_.is_set()) {
      publish_named();
    } else {
      publish_unnamed();
    }
    if (options_.durable) sync_folder(target_);
  }
  published_ = true;
}

void OutputFile::publish_unnamed() {
  const std::string self = descriptor_path(fd_.get());
  const auto link_as = [&](const char* name) {
    return ::linkat(AT_FDCWD, self.c_str(), target_.folder_fd.get(), name, AT_SYMLINK_FOLLOW) == 0;
  };
  if (!target_.exists || options_.no_clobber) {
    if (link_as(target_.file_name.c_str())) return;
    if (errno != EEXIST || options_.no_clobber) throw_publish_error(target_, errno, options_.no_clobber);
  }
  // A link cannot replace a file, a rename can: between the two the file has a temporary name.
  const ProtectedSection section;
  const std::string temp_name = temp_name_for(target_.file_name);  // of 62^6
  if (!link_as(temp_name.c_str())) throw_publish_error(target_, errno, options_.no_clobber);
  temp_name_.set(section, target_.folder_fd.get(), temp_name);
  replace_target(section);
}

void OutputFile::publish_named() {
  const ProtectedSection section;
  if (!options_.no_clobber) return replace_target(section);
  const int error = rename_if_unused(target_.folder_fd.get(), temp_name_.c_str(), target_.file_name.c_str());
  if (error == 0) return temp_name_.forget(section);
  temp_name_.remove(section);
  throw_publish_error(target_, error, options_.no_clobber);
}

void OutputFile::replace_target(const ProtectedSection& section) {
  const int folder = target_.folder_fd.get();
  const char* const name = target_.file_name.c_str();
  if (::renameat(folder, temp_name_.c_str(), folder, name) == 0) {
    return temp_name_.forget(section);
  }
  const int error = errno;
  temp_name_.remove(section);
  throw_publish_error(target_, error, options_.no_clobber);
}

void OutputFile::throw_write_error(int error, std::uint64_t offset) const {
  const std::uint64_t written = written_bytes_;
  const std::uint64_t expected = std::max<std::uint64_t>(expected_bytes_, written);
  const std::string progress = expected == 0 ? "" : text(" after ", written, " bytes, expected at least ", expected);
  const std::string need =
      expected == 0 ? "the result needs more room"
      : result_bytes_ > expected
          ? text("the whole result takes about ", human_bytes(result_bytes_),
                 " if the blocks are evenly spread (at least ", human_bytes(expected), " are needed)")
          : text("at least ", human_bytes(expected), " are needed");
  const auto hint = [&]() -> std::string {
    switch (error) {
      case ENOSPC:
        return text("free space in ", target_.is_device ? target_.name : target_.folder,
                    " or choose an output path on a larger disk: ", need, free_space_text(fd_.get()));
      case EDQUOT:
        return "ask for a larger disk quota or choose another output path: " + need;
      case EFBIG:
        return "raise the limit on the size of files (ulimit -f) or use a file system with larger files: " + need;
      default:
        return "check the disk or the connection to it, then run again";
    }
  };
  throw IoError(at_offset(target_.name, offset),
                text("writing failed (", error_text(error), ")", progress,
                     target_.is_device ? "" : "; no output was left behind"),
                hint());
}

}  // namespace spmm::io
