// Names of temporary files.
#include "io/system/unused_name.hpp"

#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <random>
#include <string_view>

namespace spmm::io {
namespace {

constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kEnd = ".tmp";
constexpr std::size_t kNumLetters = 6;

/// ".NAME.spmm-".
std::string temp_name_begin(const std::string& file_name) {
  constexpr std::size_t kAddedBytes = sizeof("..spmm-XXXXXX.tmp") - 1;
  std::size_t length = std::min(file_name.size(), NAME_MAX - kAddedBytes);
  while (length < file_name.size() && length > 0 && (file_name[length] & 0xC0) == 0x80) --length;
  return "." + file_name.substr(0, length) + ".spmm-";
}

}  // namespace

std::string temp_name_for(const std::string& file_name) {
  std::random_device random;
  std::string name = temp_name_begin(file_name);
  for (std::size_t i = 0; i < kNumLetters; ++i) name += kLetters[random() % kLetters.size()];
  return name.append(kEnd);
}

std::string shared_temp_name(const std::string& file_name) {
  return temp_name_begin(file_name) + "mpi.tmp";
}

int rename_if_unused(int folder_fd, const char* temp_name, const char* name) {
  if (::renameat2(folder_fd, temp_name, folder_fd, name, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  // The file system cannot: a link does not replace either.
  if (::linkat(folder_fd, temp_name, folder_fd, name, 0) != 0) return errno;
  ::unlinkat(folder_fd, temp_name, 0);
  return 0;
}

}  // namespace spmm::io
