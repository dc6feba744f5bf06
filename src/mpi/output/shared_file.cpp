#include "mpi/output/shared_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <random>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "io/formats/format.hpp"
#include "io/system/retried.hpp"
#include "io/system/unused_name.hpp"
#include "spmm/error.hpp"

namespace spmm::mpi {
namespace {

using io::error_text;
using io::retried;

constexpr std::uint64_t kTokenBytes = 16;
constexpr std::uint64_t kReservedStepBytes = 256u << 20;

std::string temp_name_for(const std::string& file_name) {
  constexpr std::size_t kAddedBytes = sizeof("..spmm-mpi.tmp") - 1;
  return text(".", file_name.substr(0, NAME_MAX - kAddedBytes), ".spmm-mpi.tmp");
}

std::string new_token() {
  std::random_device random;
  std::string token(kTokenBytes, '\0');
  for (char& c : token) c = static_cast<char>(random());
  return token;
}

}  // namespace

void SharedOutput::create(const std::filesystem::path& path, const FileSinkOptions& options) {
  options_ = options;
  target_ = io::find_target(path, options.no_clobber);
  name_ = target_.name;
  is_device_ = target_.is_device;
  opened_path_ = std::filesystem::absolute(
                     is_device_ ? path : std::filesystem::path(target_.folder) / temp_name_for(target_.file_name))
                     .string();
  if (is_device_) return open(ticket());
  // A run that ends between our open() and our lock takes the name away: then there is a new file to be made.
  while (!lock_temporary()) {
  }
  if (target_.exists) keep_permissions();
  token_ = new_token();
  write_at(0, std::as_bytes(std::span(token_)));
}

bool SharedOutput::lock_temporary() {
  constexpr int kFlags = O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  const std::string temp = temp_name_for(target_.file_name);
  const mode_t mode = target_.exists ? S_IRUSR | S_IWUSR : 0666;
  const ProtectedSection section;
  fd_ = io::Descriptor(retried([&] { return ::openat(target_.folder_fd.get(), temp.c_str(), kFlags, mode); }));
  if (!fd_.is_open()) {
    throw OutputError(name_, text("cannot create the temporary file ", opened_path_, " (", error_text(errno), ")"),
                      "check permissions and free space of the folder, or choose another output path");
  }
  if (retried([&] { return ::flock(fd_.get(), LOCK_EX | LOCK_NB); }) != 0) {
    const bool is_held = errno == EWOULDBLOCK;
    throw OutputError(name_,
                      is_held ? text("another run writes it now: it holds ", opened_path_)
                              : text("cannot lock ", opened_path_, " (", error_text(errno), ")"),
                      is_held ? "wait for that run, or choose another output path"
                              : "choose an output path on a file system that has locks");
  }
  struct stat mine {};
  struct stat there {};
  if (::fstat(fd_.get(), &mine) != 0 ||
      ::fstatat(target_.folder_fd.get(), temp.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return false;
    throw IoError(name_, text("cannot look at the temporary file ", opened_path_, " (", error_text(errno), ")"),
                  "check the disk or the connection to it, then run again");
  }
  if (mine.st_ino != there.st_ino || mine.st_dev != there.st_dev) return false;
  if (mine.st_size != 0) {  // what a killed run has left, with whatever permissions
    ::unlinkat(target_.folder_fd.get(), temp.c_str(), 0);
    return false;
  }
  temp_name_.set(section, target_.folder_fd.get(), temp);
  return true;
}

void SharedOutput::keep_permissions() const {
  if (::fchown(fd_.get(), target_.owner, target_.group) != 0) {
    [[maybe_unused]] const int ignored = ::fchown(fd_.get(), static_cast<uid_t>(-1), target_.group);
  }
  if (::fchmod(fd_.get(), target_.permissions) == 0) return;
  throw OutputError(name_, text("cannot keep the permission bits of the file (", error_text(errno), ")"),
                    "remove the old file or choose another output path");
}

Bytes SharedOutput::ticket() const {
  // Strings, not a stream: where there is no memory, a stream would leave a part out and say nothing.
  const std::string words = std::string(is_device_ ? "d" : "f") + (options_.durable ? "s" : "-") +
                            std::to_string(token_.size()) + " " + token_ + std::to_string(name_.size()) + " " + name_ +
                            opened_path_;
  Bytes bytes(words.size());
  std::memcpy(bytes.data(), words.data(), words.size());
  return bytes;
}

int SharedOutput::find_token() const {
  std::string found(token_.size(), '\0');
  for (std::size_t at = 0; at < found.size();) {
    const ssize_t got =
        retried([&] { return ::pread(fd_.get(), found.data() + at, found.size() - at, static_cast<off_t>(at)); });
    if (got < 0) return errno;
    if (got == 0) break;
    at += static_cast<std::size_t>(got);
  }
  return found == token_ ? 0 : ESTALE;
}

void SharedOutput::open(const Bytes& ticket) {
  std::string words(reinterpret_cast<const char*>(ticket.data()), ticket.size());
  const auto take = [&] {
    std::size_t digits = 0;
    const std::size_t size = std::stoul(words, &digits);
    const std::string value = words.substr(digits + 1, size);
    words.erase(0, digits + 1 + size);
    return value;
  };
  is_device_ = words[0] == 'd';
  options_.durable = words[1] == 's';
  words.erase(0, 2);
  token_ = take();
  name_ = take();
  opened_path_ = words;
  const int flags = (is_device_ ? O_WRONLY | O_NOCTTY : O_RDWR | O_NOFOLLOW) | O_CLOEXEC;
  fd_ = io::Descriptor(retried([&] { return ::open(opened_path_.c_str(), flags); }));
  int error = fd_.is_open() ? 0 : errno;
  if (fd_.is_open() && !is_device_) error = find_token();
  if (error == 0) return;
  throw OutputError(name_,
                    text("this machine does not see the file ", opened_path_, " that rank 0 has made (",
                         error != ESTALE ? error_text(error) : "another file is there", ")"),
                    "give an output path on a file system that all nodes share");
}

void SharedOutput::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t put =
        retried([&] { return ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (put <= 0) throw_write_error(put < 0 ? errno : EIO, offset);
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void SharedOutput::reserve(std::uint64_t end) {
  if (is_device_ || !reserves_ || end < kReservedStepBytes / 4 || end <= reserved_bytes_) return;
  const std::uint64_t next = (end + kReservedStepBytes - 1) / kReservedStepBytes * kReservedStepBytes;
  rlimit limit{};
  // Refused, or not that much space: the writes will tell what really does not fit, and finish() cuts the file.
  reserves_ = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || next <= limit.rlim_cur) &&
              retried([&] {
                return ::fallocate(fd_.get(), 0, static_cast<off_t>(reserved_bytes_),
                                   static_cast<off_t>(next - reserved_bytes_));
              }) == 0;
  if (reserves_) reserved_bytes_ = next;
}

void SharedOutput::flush() const {
  if (is_device_) return;
  const int duplicate = ::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0);
  if (duplicate >= 0 && ::close(duplicate) != 0 && errno != EINTR) throw_write_error(errno, 0);
  if (options_.durable && retried([&] { return ::fsync(fd_.get()); }) != 0) throw_write_error(errno, 0);
}

void SharedOutput::finish(const MatrixHeader& header, std::uint64_t end) {
  if (is_device_) return;
  // The token is longer than the header: an empty result is cut behind it.
  write_at(0, io::encode_header(header));
  if (retried([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(end)); }) != 0) {
    throw_write_error(errno, end);
  }
  flush();
}

void SharedOutput::publish() {
  if (is_device_) return;
  const Publication publication;
  const int folder = target_.folder_fd.get();
  int error = 0;
  {
    const ProtectedSection section;
    const char* const name = target_.file_name.c_str();
    if (options_.no_clobber) {
      error = io::rename_if_unused(folder, temp_name_.c_str(), name);
    } else if (::renameat(folder, temp_name_.c_str(), folder, name) != 0) {
      error = errno;
    }
    if (error == 0) temp_name_.forget(section);
  }
  if (error != 0) {
    if (error == EEXIST) io::throw_exists(name_);
    throw OutputError(name_, text("cannot give the finished file its name (", error_text(error), ")"),
                      text("check what was changed in ", target_.folder, " meanwhile, or choose another output path"));
  }
  if (options_.durable) sync_folder();
}

void SharedOutput::sync_folder() const {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  const io::Descriptor folder(retried([&] { return ::openat(target_.folder_fd.get(), ".", kFlags); }));
  if (folder.is_open() && (retried([&] { return ::fsync(folder.get()); }) == 0 || errno == EINVAL)) return;
  throw IoError(name_, text("the output is complete, but its folder could not be synced (", error_text(errno), ")"),
                "check the disk and run again, or run without --durable");
}

void SharedOutput::throw_write_error(int error, std::uint64_t offset) const {
  throw IoError(at_offset(name_, offset), text("writing failed (", error_text(error), "); no output was left behind"),
                error == ENOSPC || error == EDQUOT ? "free space there, or choose an output path on a larger disk"
                                                   : "check the disk or the connection to it, then run again");
}

}  // namespace spmm::mpi
