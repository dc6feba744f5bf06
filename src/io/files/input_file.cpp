// A matrix file read by position, and whether it has changed.
#include "io/files/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>
#include <stdexcept>
#include <system_error>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "io/formats/foreign_format.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace io {
namespace {

const char* open_remedy(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    case EACCES:
    case EPERM:
      return "ask for read permission on the file and on the folders above it (ls -l, chmod)";
    case EMFILE:
    case ENFILE:
      return "close other files or raise the limit (ulimit -n)";
    default:
      return "check the path and the file system";
  }
}

/// Errors: always InputError.
[[noreturn]] void throw_cannot_open(const std::string& name, int error) {
  throw InputError(name, text("cannot open the file (", error_text(error), "), expected a readable matrix file"),
                   open_remedy(error));
}

/// Errors: always InputError.
[[noreturn]] void throw_not_a_file(const std::string& name, unsigned mode) {
  throw InputError(name, text("is ", kind_text(mode), ", expected a regular file"),
                   S_ISDIR(mode) ? "give the path of a matrix file inside the folder"
                                 : "store the data in a file first: records are read by position and more than once");
}

}  // namespace

Descriptor open_regular_file(const std::string& name) {
  // O_NONBLOCK: opening a pipe must not wait for a writer. It is taken back below.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  Descriptor fd(retried([&] { return ::open(name.c_str(), kFlags); }));
  if (!fd.is_open()) {
    const int error = errno;
    struct stat info {};
    if (error == ENXIO && ::stat(name.c_str(), &info) == 0) throw_not_a_file(name, info.st_mode);
    throw_cannot_open(name, error);
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw_cannot_open(name, errno);
  if (!S_ISREG(info.st_mode)) throw_not_a_file(name, info.st_mode);
  ::fcntl(fd.get(), F_SETFL, 0);
  return fd;
}

InputFile::InputFile(const std::filesystem::path& path, ElementType type) : name_(path.string()) {
  fd_ = open_regular_file(name_);
  file_bytes_ = current_bytes();
  HeaderBytes bytes{};
  const auto first_bytes = std::span(bytes).first(std::min<std::size_t>(file_bytes_, kHeaderBytes));
  read_at(0, first_bytes);
  if (file_bytes_ < kHeaderBytes) {
    reject_foreign_format(first_bytes, name_);
    throw_no_header(file_bytes_, name_);
  }
  header_ = decode_header(bytes);
  check_header(bytes, type, file_bytes_, name_);
  record_bytes_ = spmm::record_bytes(type, header_.m);
  ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // only a hint: a failure changes nothing
}

void InputFile::prefetch() const {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;  // a fast disk reads about as much while a GPU starts
  const auto bytes = static_cast<off_t>(std::min(file_bytes_, kMostBytes));
  ::posix_fadvise(fd_.get(), 0, bytes, POSIX_FADV_WILLNEED);  // only a hint: a failure changes nothing
}

struct stat InputFile::current_state() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) {
    throw IoError(name_, text("cannot tell the length of the file (", error_text(errno), ")"),
                  "check the disk or the connection to it, then run again");
  }
  return info;
}

std::uint64_t InputFile::current_bytes() const {
  return static_cast<std::uint64_t>(current_state().st_size);
}

std::string InputFile::identity() const {
  const struct stat info = current_state();
  return text("device ", info.st_dev, ", inode ", info.st_ino, ", ", info.st_size, " bytes, changed ",
              info.st_ctim.tv_sec, " s ", info.st_ctim.tv_nsec, " ns");
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> dst) const {
  int error = 0;
  const std::size_t got = io::read_at(fd_.get(), offset, dst, error);
  if (got == dst.size()) return;
  if (error == 0) throw_changed_length(std::min(current_bytes(), offset + got), file_bytes_, name_);
  throw IoError(at_offset(name_, offset + got),
                text("reading failed (", error_text(error), "), expected ", dst.size() - got, " more bytes"),
                "check the disk or the connection to it, then run again");
}

void InputFile::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  if (first > header_.num_blocks || count > header_.num_blocks - first) {
    throw std::out_of_range(text(name_, ": records ", first, " + ", count, " of ", header_.num_blocks));
  }
  read_at(kHeaderBytes + first * record_bytes_, {dst, count * record_bytes_});
}

std::string InputFile::place(std::uint64_t record) const {
  return record_place(record, record_bytes_);
}

void InputFile::check_unchanged() const {
  const std::uint64_t now = current_bytes();
  if (now != file_bytes_) throw_changed_length(now, file_bytes_, name_);
}

}  // namespace io

std::unique_ptr<Source> open_file_source(const std::filesystem::path& path) {
  return std::make_unique<io::InputFile>(path, ElementType::u16);
}

}  // namespace spmm
