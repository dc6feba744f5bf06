// A file without a name for records that do not fit in memory: nothing is left of it, however the process ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/system/descriptor.hpp"

namespace spmm::io {

/// Threads: may be read and written from several threads at once.
class ScratchFile {
 public:
  /// Makes it in the first of the folders that has a file system on a disk with files without names and so much room,
  /// which is reserved. Errors: OutOfMemory if there is none.
  ScratchFile(std::span<const std::string> folders, std::uint64_t bytes);

  /// Errors: IoError; OutOfMemory if the file system reserves nothing and is full.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
  /// Errors: IoError.
  void read_at(std::uint64_t offset, std::span<std::byte> dst) const;

 private:
  Descriptor fd_;
  std::string name_;  ///< for messages
};

/// Whether a folder lies in memory: no scratch file is made there.
bool is_in_memory(const std::filesystem::path& folder);

/// Where a scratch file may be made, best first: in the folder of the output, unless that is a device or in memory
/// (an empty path), in TMPDIR (/tmp where that is not set), and in /var/tmp.
std::vector<std::string> scratch_folders(const std::filesystem::path& out = {});

}  // namespace spmm::io
