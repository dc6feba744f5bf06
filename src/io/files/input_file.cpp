// A matrix file read by position, and whether it has changed.
#include "io/files/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "io/formats/foreign_format.hpp"
#include "io/formats/parts_index.hpp"
#include "io/system/retried.hpp"
#include "spmm/error.hpp"

namespace spmm::io {
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
  if (std::error_code ignored; S_ISDIR(mode) && std::filesystem::exists(name + "/" + kIndexName, ignored)) {
    throw InputError(name, "is a folder of parts, expected a regular file", operand_hint(name));
  }
  throw InputError(name, text("is ", kind_text(mode), ", expected a regular file"),
                   S_ISDIR(mode) ? "give the path of a matrix file inside the folder"
                                 : "store the data in a file first: records are read by position and more than once");
}

/// Checks the block rows of the first and the last record of a part against its range in the index: records ascend.
/// Errors: FormatError, IoError.
void check_rows(const InputFile& file, const ResultPart& part) {
  std::vector<std::byte> record(file.record_bytes());
  for (const std::uint64_t r : {std::uint64_t{0}, file.num_records() - 1}) {
    if (file.num_records() == 0) return;
    file.read_records(r, 1, record.data());
    const std::uint32_t row = read_index(record.data()).i;
    if (row >= part.row_begin && row < part.row_end) continue;
    throw FormatError(at_record(file.name(), r, file.record_bytes()),
                      text("a block of block row ", row, "; the index gives the part the block rows ", part.row_begin,
                           " to ", part.row_end, " (not included)"),
                      "write the folder anew (ProductOptions::num_parts): the index or the part was changed");
  }
}

/// Times of files advance in steps of up to 10 ms (a tick of the kernel).
constexpr std::int64_t kSettledNs = 20'000'000;

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
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

/// The files of a result in parts, and the first record of each.
struct InputFile::Parts {
  std::vector<InputFile> files;
  std::vector<std::uint64_t> first_records;  // [files + 1]
};

InputFile::~InputFile() = default;
InputFile::InputFile(InputFile&& other) noexcept = default;

InputFile::InputFile(const std::filesystem::path& path, ElementType type) : name_(path.string()) {
  std::error_code ignored;  // opening says what is wrong
  if (type == ElementType::u32 && std::filesystem::is_directory(path, ignored)) {
    open_parts();
    return;
  }
  fd_ = open_regular_file(name_);
  file_bytes_ = current_bytes();
  if (file_bytes_ < kHeaderBytes) throw_no_header(file_bytes_, name_);
  HeaderBytes bytes;
  read_at(0, bytes);
  header_ = decode_header(bytes);
  check_header(bytes, type, file_bytes_, name_);
  record_bytes_ = record_bytes_of(type, header_.m);
  num_records_ = header_.num_blocks;
}

void InputFile::open_parts() {
  const PartsIndex index = read_parts_index(name_);
  parts_ = std::make_unique<Parts>();
  parts_->files.reserve(index.parts.size());
  for (const ResultPart& part : index.parts) {
    const InputFile& file = parts_->files.emplace_back(std::filesystem::path(name_) / part.file, ElementType::u32);
    const MatrixHeader expected{.n = index.n, .m = index.m, .num_blocks = part.num_blocks};
    if (file.header() != expected) {
      throw FormatError(file.name(),
                        text("header (byte offset 0): n = ", file.header().n, ", m = ", file.header().m, ", ",
                             file.header().num_blocks, " blocks; the index says n = ", expected.n, ", m = ", expected.m,
                             ", ", expected.num_blocks, " blocks"),
                        "write the folder anew (ProductOptions::num_parts): parts of several results were mixed");
    }
    check_rows(file, part);
    parts_->first_records.push_back(num_records_);
    num_records_ += part.num_blocks;
    file_bytes_ += part.bytes;
  }
  parts_->first_records.push_back(num_records_);
  record_bytes_ = output_record_bytes(index.m);
  constexpr std::uint64_t kMostOfHeader = 0xFFFF'FFFFu;
  header_ = {
      .n = index.n, .m = index.m, .num_blocks = static_cast<std::uint32_t>(std::min(num_records_, kMostOfHeader))};
}

void InputFile::expect_sequential_reads() const {
  if (parts_) {
    for (const InputFile& file : parts_->files) file.expect_sequential_reads();
    return;
  }
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

std::optional<SourceIdentity> InputFile::identity() const {
  const struct stat info = current_state();
  timespec now{};
  if (::clock_gettime(CLOCK_REALTIME, &now) != 0) return std::nullopt;
  const SourceIdentity identity{.device = info.st_dev,
                                .inode = info.st_ino,
                                .bytes = static_cast<std::uint64_t>(info.st_size),
                                .modified_ns = nanoseconds(info.st_mtim),
                                .changed_ns = nanoseconds(info.st_ctim),
                                .header = header_};
  if (nanoseconds(now) - identity.changed_ns < kSettledNs) return std::nullopt;
  return identity;
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> dst) const {
  while (!dst.empty()) {
    const ssize_t got = retried([&] { return ::pread(fd_.get(), dst.data(), dst.size(), static_cast<off_t>(offset)); });
    if (got == 0) throw_changed_length(std::min(current_bytes(), offset), file_bytes_, name_);
    if (got < 0) {
      throw IoError(at_offset(name_, offset),
                    text("reading failed (", error_text(errno), "), expected ", dst.size(), " more bytes"),
                    "check the disk or the connection to it, then run again");
    }
    offset += static_cast<std::uint64_t>(got);
    dst = dst.subspan(static_cast<std::size_t>(got));
  }
}

void InputFile::read_records(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  if (first > num_records_ || count > num_records_ - first) {
    throw std::out_of_range(text(name_, ": records ", first, " + ", count, " of ", num_records_));
  }
  if (parts_) {
    const auto& starts = parts_->first_records;
    auto part = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), first) - starts.begin()) - 1;
    for (; count > 0; ++part) {
      const std::uint64_t here = std::min(count, starts[part + 1] - first);
      parts_->files[part].read_records(first - starts[part], here, dst);
      first += here;
      count -= here;
      dst += here * record_bytes_;
    }
    return;
  }
  read_at(kHeaderBytes + first * record_bytes_, {dst, count * record_bytes_});
}

void InputFile::check_unchanged() const {
  if (parts_) {
    for (const InputFile& file : parts_->files) file.check_unchanged();
    return;
  }
  const std::uint64_t now = current_bytes();
  if (now != file_bytes_) throw_changed_length(now, file_bytes_, name_);
}

}  // namespace spmm::io
