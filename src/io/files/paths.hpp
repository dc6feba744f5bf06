// Questions about paths: which file is it, and where would an output go.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "io/system/descriptor.hpp"

namespace spmm {

/// Whether both paths name one existing file (also through links), or would name the same new one.
/// Errors: OutputError (a loop of symbolic links).
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// Refuses an output that is the same file as an input. Errors: UsageError.
void check_output_is_no_input(const std::filesystem::path& input, const std::filesystem::path& out);

namespace io {

/// Where an output goes once symbolic links were followed.
struct Target {
  std::string name;        ///< the path as given, for messages
  std::string folder;      ///< for messages
  std::string file_name;   ///< inside the folder
  Descriptor folder_fd;    ///< O_PATH
  bool is_device = false;  ///< a character device: written in place
  bool exists = false;     ///< a regular file is there
  mode_t permissions = 0;  ///< of the existing file
  uid_t owner = 0;
  gid_t group = 0;
};

/// Follows symbolic links of the last component, whether or not they lead to a file that exists.
/// Errors: OutputError (too many links).
std::filesystem::path follow_links(std::filesystem::path path);

/// The folder that an output is written in, links followed. Errors: as follow_links().
std::filesystem::path folder_of_output(const std::filesystem::path& out);

/// Resolves an output path and refuses early what could not be replaced at the end.
/// Errors: OutputError (a directory, a pipe, no such folder, not writable, exists and `no_clobber`, ...).
Target find_target(const std::filesystem::path& path, bool no_clobber);

/// Gives a new output the bits of what it will replace. Errors: OutputError.
void keep_permissions(int fd, const Target& target);
/// After the output has its name. Errors: IoError.
void sync_folder(const Target& target);
/// Errors: always OutputError, by errno.
[[noreturn]] void throw_no_temporary(const Target& target);
/// Errors: always OutputError or IoError.
[[noreturn]] void throw_publish_error(const Target& target, int error, bool no_clobber);

}  // namespace io
}  // namespace spmm
