// An output folder of parts that other processes see only when it is complete.
#pragma once

#include <string>
#include <vector>

#include "base/temporary_names.hpp"
#include "io/files/file_sink.hpp"
#include "io/files/paths.hpp"
#include "io/formats/parts_index.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/io.hpp"

namespace spmm::io {

/// Where a new file in the open folder of an output goes. Values: name = of the output, folder = where it lies, both
/// for messages. Errors: OutputError.
Target place_inside(int folder_fd, const std::string& file_name, const std::string& name, const std::string& folder);

/// A temporary folder .NAME.spmm-XXXXXX.tmp next to the target, which takes the target's place in publish(). An
/// existing folder is replaced if it holds a valid index and nothing that the index does not name: both exchange their
/// names, then the old one is removed. A process that was killed leaves one such folder at most; the next output of
/// that name removes it, as it is no longer locked. The destructor removes an unpublished folder; so does
/// remove_temporary_files().
class PartsFolder {
 public:
  /// Values: file_names = all that the folder will hold. Errors: OutputError (also if an existing folder may not be
  /// replaced, or the file system cannot exchange names, or another run is refused).
  PartsFolder(const std::filesystem::path& path, const FileSinkOptions& options, std::vector<std::string> file_names,
              OtherRuns other_runs = OtherRuns::allowed);
  PartsFolder(const PartsFolder&) = delete;
  PartsFolder& operator=(const PartsFolder&) = delete;

  [[nodiscard]] const std::string& name() const { return target_.name; }
  /// The folder in which the output lies, for messages.
  [[nodiscard]] const std::string& parent() const { return target_.folder; }
  /// Absolute, for other processes.
  [[nodiscard]] std::filesystem::path temporary_path() const;

  /// Where a new file inside the folder goes. Errors: OutputError.
  [[nodiscard]] Target place_of(const std::string& file_name) const;

  /// Errors: OutputError, IoError.
  void write_index(const PartsIndex& index) const;

  /// Makes the folder visible under its name at once. Errors: OutputError, IoError.
  void publish();

 private:
  void remove_leftovers() const;
  void create();
  void make();
  bool lock();
  void check_exchange();
  bool take_free_name(const ProtectedSection& section);
  void exchange(const ProtectedSection& section);
  [[noreturn]] void fail_to_publish(int error) const;

  FileSinkOptions options_;
  OtherRuns other_runs_;
  Target target_;
  std::vector<std::string> file_names_;
  Descriptor folder_;                   // the temporary one; locked
  Descriptor old_;                      // what it has replaced
  std::vector<std::string> old_names_;  // to be removed
  TemporaryName temp_name_;             // last: goes before what it names
};

}  // namespace spmm::io
