// A file without a name for sorted operands.
#include "io/files/scratch_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "io/files/paths.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/error.hpp"

namespace spmm::io {
namespace {

/// Why a file of that many bytes cannot be made there; empty: it can, and is open.
std::string try_folder(const std::string& folder, std::uint64_t bytes, Descriptor& fd) {
  Descriptor file(
      retried([&] { return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_NOATIME, S_IRUSR | S_IWUSR); }));
  if (!file.is_open()) return error_text(errno);
  if (is_in_memory(folder)) return "is in memory";
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

ScratchFile::ScratchFile(std::span<const std::string> folders, std::uint64_t bytes) {
  std::string why = folders.empty() ? "no folder for it" : "";
  for (const std::string& folder : folders) {
    const std::string problem = try_folder(folder, std::max<std::uint64_t>(1, bytes), fd_);
    name_ = "scratch file in " + folder;
    if (problem.empty()) return;
    why += text(why.empty() ? "" : "; ", folder, ": ", problem);
  }
  throw OutOfMemory("the memory limit",
                    text("the operands do not fit, and no scratch file of ", human_bytes(bytes), " can be made: ", why),
                    "raise EngineOptions::memory_limit_bytes, or set TMPDIR to a folder on a disk with that much room");
}

void ScratchFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  int error = 0;
  const std::size_t put = io::write_at(fd_.get(), offset, bytes, error);
  if (put == bytes.size()) return;
  if (error == ENOSPC || error == EDQUOT) {
    throw OutOfMemory(name_, error_text(error),
                      "free space there, set TMPDIR to a folder on a larger disk, or raise "
                      "EngineOptions::memory_limit_bytes");
  }
  throw IoError(at_offset(name_, offset + put), text("writing failed (", error_text(error), ")"),
                "free space there or set TMPDIR to a folder on a larger disk, then run again");
}

void ScratchFile::read_at(std::uint64_t offset, std::span<std::byte> dst) const {
  int error = 0;
  const std::size_t got = io::read_at(fd_.get(), offset, dst, error);
  if (got == dst.size()) return;
  throw IoError(at_offset(name_, offset + got),
                text("reading failed (", error == 0 ? "it ends there" : error_text(error), ")"),
                "check the disk, then run again");
}

bool is_in_memory(const std::filesystem::path& folder) {
  struct statfs info {};
  return retried([&] { return ::statfs(folder.c_str(), &info); }) == 0 &&
         (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

std::vector<std::string> scratch_folders(const std::filesystem::path& out) {
  std::vector<std::string> folders;
  struct stat there {};
  if (!out.empty() && (::stat(out.c_str(), &there) != 0 || !S_ISCHR(there.st_mode))) {
    folders.push_back(folder_of_output(out).string());
  }
  const char* const set = std::getenv("TMPDIR");
  folders.emplace_back(set != nullptr && *set != '\0' ? set : "/tmp");
  folders.emplace_back("/var/tmp");
  return folders;
}

}  // namespace spmm::io
