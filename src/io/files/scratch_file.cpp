// A file without a name for sorted operands.
#include "io/files/scratch_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "io/files/paths.hpp"
#include "io/system/retried.hpp"
#include "spmm/error.hpp"

namespace spmm::io {
namespace {

/// Why a file of that many bytes cannot be made there; empty: it can, and is open.
std::string try_folder(const std::string& folder, std::uint64_t bytes, Descriptor& fd) {
  Descriptor file(
      retried([&] { return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_NOATIME, S_IRUSR | S_IWUSR); }));
  if (!file.is_open()) return error_text(errno);
  struct statfs info {};
  if (retried([&] { return ::fstatfs(file.get(), &info); }) != 0) return error_text(errno);
  if (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC) return "is in memory";
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
    return error_text(EFBIG);  // the call below would send a signal
  }
  const auto length = static_cast<off_t>(bytes);
  if (retried([&] { return ::fallocate(file.get(), 0, 0, length); }) != 0 && errno != EOPNOTSUPP) {
    return error_text(errno);
  }
  fd = std::move(file);
  return {};
}

}  // namespace

ScratchFile ScratchFile::make(std::span<const std::string> folders, std::uint64_t bytes, std::string& why) {
  ScratchFile scratch;
  why.clear();
  for (const std::string& folder : folders) {
    const std::string problem = try_folder(folder, bytes, scratch.fd_);
    if (problem.empty()) {
      scratch.name_ = "scratch file in " + folder;
      return scratch;
    }
    why += text(why.empty() ? "" : "; ", folder, ": ", problem);
  }
  if (why.empty()) why = "no folder for it";
  return scratch;
}

void ScratchFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t put =
        retried([&] { return ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (put <= 0) {
      if (put < 0 && (errno == ENOSPC || errno == EDQUOT)) throw ScratchFull{text(name_, ": ", error_text(errno))};
      throw IoError(at_offset(name_, offset), text("writing failed (", put == 0 ? "no bytes" : error_text(errno), ")"),
                    "free space there or set TMPDIR to a folder on a larger disk, then run again");
    }
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void ScratchFile::read_at(std::uint64_t offset, std::span<std::byte> dst) const {
  while (!dst.empty()) {
    const ssize_t got = retried([&] { return ::pread(fd_.get(), dst.data(), dst.size(), static_cast<off_t>(offset)); });
    if (got <= 0) {
      throw IoError(at_offset(name_, offset), text("reading failed (", got == 0 ? "no bytes" : error_text(errno), ")"),
                    "check the disk, then run again");
    }
    offset += static_cast<std::uint64_t>(got);
    dst = dst.subspan(static_cast<std::size_t>(got));
  }
}

std::vector<std::string> scratch_folders(const std::filesystem::path& out) {
  std::vector<std::string> folders;
  struct stat there {};
  if (!out.empty() && (::stat(out.c_str(), &there) != 0 || !S_ISCHR(there.st_mode))) {
    const std::filesystem::path given = out.has_filename() ? out : out.parent_path();
    const std::filesystem::path folder = follow_links(given).parent_path();
    folders.push_back(folder.empty() ? "." : folder.string());
  }
  const char* const set = std::getenv("TMPDIR");
  folders.emplace_back(set != nullptr && *set != '\0' ? set : "/tmp");
  folders.emplace_back("/var/tmp");
  return folders;
}

}  // namespace spmm::io
