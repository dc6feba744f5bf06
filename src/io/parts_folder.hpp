// An output folder of parts that other processes see only when it is complete.
#pragma once

#include <string>
#include <vector>

#include "base/temporary_names.hpp"
#include "io/descriptor.hpp"
#include "io/paths.hpp"
#include "spmm/io.hpp"

namespace spmm::io {

/// A temporary folder .NAME.spmm-XXXXXX.tmp beside the target, which takes the target's place in publish(). An existing
/// folder is replaced if it holds a valid index and nothing that the index does not name: both exchange their names,
/// then the old one is removed. A process that was killed leaves one such folder at most; the next output of that name
/// removes it, as it is no longer locked. The destructor removes an unpublished folder; so does
/// remove_temporary_files().
class PartsFolder {
 public:
  /// Values: file_names = all that the folder will hold. Errors: OutputError (also where an existing folder may not be
  /// replaced, or the file system cannot exchange names).
  PartsFolder(const std::filesystem::path& path, const FileSinkOptions& options, std::vector<std::string> file_names);
  PartsFolder(const PartsFolder&) = delete;
  PartsFolder& operator=(const PartsFolder&) = delete;

  [[nodiscard]] const std::string& name() const { return target_.name; }

  /// Where a new file inside the folder goes. Errors: OutputError.
  [[nodiscard]] Target place_of(const std::string& file_name) const;

  /// Makes the folder visible under its name at once. Errors: OutputError, IoError.
  void publish();

 private:
  void create();
  bool create_as(const ProtectedSection& section, const std::string& name);
  void check_exchange();
  bool take_free_name(const ProtectedSection& section);
  void exchange(const ProtectedSection& section);
  void keep_permissions() const;
  void sync_parent() const;
  [[noreturn]] void throw_publish_error(int error) const;

  FileSinkOptions options_;
  Target target_;
  std::vector<std::string> file_names_;
  Descriptor folder_;                   // the temporary one; locked
  Descriptor old_;                      // what it has replaced
  std::vector<std::string> old_names_;  // to be removed
  TemporaryName temp_name_;             // last: goes before what it names
};

}  // namespace spmm::io
