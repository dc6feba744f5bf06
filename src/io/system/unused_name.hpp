// Names of temporary files next to the target they will replace.
#pragma once

#include <cerrno>
#include <string>

namespace spmm::io {

/// ".NAME.spmm-XXXXXX.tmp", six random letters; a long NAME is cut (between UTF-8 characters) so that the name stays
/// legal.
std::string temp_name_for(const std::string& file_name);

/// ".NAME.spmm-mpi.tmp": of all runs with several processes to the same output.
std::string shared_temp_name(const std::string& file_name);

/// Renames a temporary file unless the other name is taken, on file systems without RENAME_NOREPLACE (NFS) as well.
/// Returns 0 or the error; after an error the temporary name is still there.
int rename_if_unused(int folder_fd, const char* temp_name, const char* name);

/// Calls attempt(name) with fresh names until it no longer fails with EEXIST.
/// Returns the name that worked, or "" with errno set.
template <class Attempt>
std::string with_unused_name(const std::string& file_name, const Attempt& attempt) {
  constexpr int kMaxNameAttempts = 100;  // 62^6 names: a second attempt is rare already
  for (int i = 0; i < kMaxNameAttempts; ++i) {
    std::string name = temp_name_for(file_name);
    if (attempt(name.c_str())) return name;
    if (errno != EEXIST) break;
  }
  return "";
}

}  // namespace spmm::io
