// Paths of inputs and outputs.
#include "io/files/paths.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/text.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxLinks = 40;  // as many as Linux follows

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

bool same_inode(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Errors: always OutputError.
[[noreturn]] void refuse(const std::string& name, const std::string& problem, const std::string& hint) {
  throw OutputError(name, problem, hint);
}

[[noreturn]] void throw_exists(const std::string& name) {
  throw OutputError(name, "the file exists and must not be replaced (no-clobber)",
                    "remove it, choose another output path, or allow it to be replaced");
}

/// Refuses what is there under the output's name and is not a regular file or a character device.
void check_kind(const std::string& name, mode_t mode) {
  if (S_ISREG(mode) || S_ISCHR(mode)) return;
  const std::string problem = text("is ", io::kind_text(mode), ", expected a regular file or a new name");
  if (S_ISDIR(mode))
    refuse(name, problem, text("name a file inside it, such as ", (fs::path(name) / "out.bin").string()));
  refuse(name, problem, "write to a file: the header is written last, which needs an output that can seek");
}

/// Refuses a folder (name = "") or file that no rename may change, whatever its permissions say.
void check_attributes(const io::Target& target, const std::string& name) {
  constexpr std::uint64_t kMountRoot = 0x2000;  // STATX_ATTR_MOUNT_ROOT of newer headers
  struct statx info {};
  constexpr int kFlags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
  if (::statx(target.folder_fd.get(), name.c_str(), kFlags, 0, &info) != 0)
    return;  // no such call: the rename will tell
  if (!name.empty() && (info.stx_attributes & kMountRoot) != 0) {
    refuse(target.name, "is a mount point, expected a file that can be replaced",
           "mount its folder instead (docker run -v FOLDER:FOLDER), or choose another output path");
  }
  if ((info.stx_attributes & (STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE)) == 0) return;
  refuse(target.name,
         text(name.empty() ? "the folder " + target.folder : "the existing file", " is ",
              (info.stx_attributes & STATX_ATTR_APPEND) != 0 ? "append-only" : "immutable", " (lsattr)"),
         "take the attribute away (chattr -a, chattr -i), or choose another output path");
}

void open_folder(io::Target& target) {
  target.folder_fd = io::Descriptor(::open(target.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!target.folder_fd.is_open()) {
    refuse(target.name, text("cannot use the folder ", target.folder, " (", io::error_text(errno), ")"),
           text("create it (mkdir -p ", target.folder, ") or choose another output path"));
  }
  check_attributes(target, "");
  if (::faccessat(target.folder_fd.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    refuse(target.name, text("cannot create a file in the folder ", target.folder, " (", io::error_text(errno), ")"),
           "ask for write permission on the folder or choose another output path");
  }
}

/// Refuses an existing file that the rename at the end would not be allowed to replace.
void check_replaceable(const io::Target& target) {
  check_attributes(target, target.file_name);
  if (::faccessat(target.folder_fd.get(), target.file_name.c_str(), W_OK, AT_EACCESS) != 0) {
    refuse(target.name, text("the existing file is not writable (", io::error_text(errno), ")"),
           "make it writable (chmod u+w), remove it, or choose another output path");
  }
  struct stat folder {};
  if (::fstat(target.folder_fd.get(), &folder) != 0 || (folder.st_mode & S_ISVTX) == 0) return;
  const uid_t self = ::geteuid();
  if (self == 0 || self == target.owner || self == folder.st_uid) return;
  refuse(target.name,
         text("the existing file belongs to another user and ", target.folder,
              " lets only owners replace files (sticky bit)"),
         "choose another output path");
}

}  // namespace

bool same_file(const fs::path& a, const fs::path& b) {
  struct stat info_a {};
  struct stat info_b {};
  const bool has_a = ::stat(a.c_str(), &info_a) == 0;
  const bool has_b = ::stat(b.c_str(), &info_b) == 0;
  if (has_a != has_b) return false;
  if (has_a) return same_inode(info_a, info_b);
  std::error_code ignored;
  const fs::path target_a = io::follow_links(a);
  const fs::path target_b = io::follow_links(b);
  if (::stat(folder_of(target_a).c_str(), &info_a) == 0 && ::stat(folder_of(target_b).c_str(), &info_b) == 0) {
    return same_inode(info_a, info_b) && target_a.filename() == target_b.filename();
  }
  return fs::absolute(target_a, ignored).lexically_normal() == fs::absolute(target_b, ignored).lexically_normal();
}

void check_output_is_no_input(const fs::path& input, const fs::path& out) {
  if (!same_file(input, out)) return;
  throw UsageError(out.string(), text("the output is the same file as the input ", input.string()),
                   "give the output another name");
}

namespace io {

fs::path follow_links(fs::path path) {
  const std::string name = path.string();
  std::error_code error;
  for (int links = 0; links < kMaxLinks; ++links) {
    const fs::path next = fs::read_symlink(path, error);
    if (error) return path;  // no link, or nothing there
    path = next.is_absolute() ? next : folder_of(path) / next;
  }
  refuse(name, text("follows more than ", kMaxLinks, " symbolic links"), "remove the loop (ls -l)");
}

fs::path folder_of_output(const fs::path& out) {
  return folder_of(follow_links(out.has_filename() ? out : out.parent_path()));  // "c/" is a folder to be made
}

void keep_permissions(int fd, const Target& target) {
  // Owner and group are kept where the system allows it; only the permission bits are promised.
  if (::fchown(fd, target.owner, target.group) != 0) {
    [[maybe_unused]] const int ignored = ::fchown(fd, static_cast<uid_t>(-1), target.group);
  }
  if (::fchmod(fd, target.permissions) == 0) return;
  throw OutputError(target.name, text("cannot keep the permission bits of the file (", error_text(errno), ")"),
                    "remove the old file or choose another output path");
}

void sync_folder(const Target& target) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  const Descriptor folder(retried([&] { return ::openat(target.folder_fd.get(), ".", kFlags); }));
  // EINVAL: folders need no sync there.
  if (folder.is_open() && (retried([&] { return ::fsync(folder.get()); }) == 0 || errno == EINVAL)) return;
  throw IoError(target.name,
                text("the output is complete, but the folder ", target.folder, " could not be synced (",
                     error_text(errno), "), expected it to be durable"),
                "check the disk and run again, or run without ProductOptions::durable");
}

void throw_no_temporary(const Target& target) {
  throw OutputError(target.name,
                    text("cannot create a temporary file in the folder ", target.folder, " (", error_text(errno), ")"),
                    "check permissions and free space of the folder, or choose another output path");
}

void throw_publish_error(const Target& target, int error, bool no_clobber) {
  if (error == EEXIST && no_clobber) throw_exists(target.name);
  const std::string problem = text("cannot give the finished file its name (", error_text(error), ")");
  if (error == EIO || error == ENOSPC || error == EDQUOT) {
    throw IoError(target.name, problem, text("check the disk that holds ", target.folder, ", then run again"));
  }
  throw OutputError(target.name, problem,
                    text("check what was changed in ", target.folder, " meanwhile, or choose another output path"));
}

Target find_target(const fs::path& path, bool no_clobber) {
  Target target;
  target.name = path.string();
  if (path.empty()) refuse("output", "the path is empty, expected the name of a file", "name an output file");
  struct stat info {};
  const bool found = ::stat(path.c_str(), &info) == 0;
  if (!found && errno != ENOENT) {
    refuse(target.name, text("cannot use the path (", error_text(errno), ")"), "choose another output path");
  }
  if (found) check_kind(target.name, info.st_mode);
  target.is_device = found && S_ISCHR(info.st_mode);
  if (target.is_device) return target;
  const fs::path resolved = follow_links(path);
  target.file_name = resolved.filename().string();
  target.folder = folder_of(resolved).string();
  if (target.file_name.empty() || target.file_name == "." || target.file_name == "..") {
    refuse(target.name, "the path names a folder, expected the name of a file", "add a file name, such as out.bin");
  }
  open_folder(target);
  if (!found) return target;
  if (no_clobber) throw_exists(target.name);
  struct stat there {};
  if (::fstatat(target.folder_fd.get(), target.file_name.c_str(), &there, 0) != 0 || !same_inode(info, there)) {
    refuse(target.name, text("is a link to a file that has no usable name (", resolved.string(), ")"),
           "give the path of a file");
  }
  target.exists = true;
  target.permissions = info.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO);
  target.owner = info.st_uid;
  target.group = info.st_gid;
  check_replaceable(target);
  return target;
}

}  // namespace io
}  // namespace spmm
