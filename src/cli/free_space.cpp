// The space that a result needs against what the disk has.
#include "cli/free_space.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "io/files/paths.hpp"
#include "spmm/error.hpp"

namespace spmm::cli {
namespace fs = std::filesystem;

std::optional<std::uint64_t> free_bytes_for(const fs::path& out) {
  try {
    struct stat there {};
    if (::stat(out.c_str(), &there) == 0 && S_ISCHR(there.st_mode)) return std::nullopt;
    struct statvfs info {};
    if (::statvfs(io::folder_of_output(out).c_str(), &info) != 0 || info.f_blocks == 0) return std::nullopt;
    return std::uint64_t{info.f_bavail} * info.f_frsize;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void check_space_for_file(const fs::path& out, std::uint64_t bytes) {
  const auto free = free_bytes_for(out);
  if (!free || bytes <= *free) return;
  throw OutputError(out.string(),
                    text("the file takes ", human_bytes(bytes), ", and ", io::folder_of_output(out).string(), " has ",
                         human_bytes(*free), " free"),
                    "free space there, or choose an output path on a larger disk");
}

}  // namespace spmm::cli
