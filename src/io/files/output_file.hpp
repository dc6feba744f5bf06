// An output file that other processes see only when it is complete.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/temporary_names.hpp"
#include "io/files/paths.hpp"
#include "io/system/descriptor.hpp"
#include "io/system/mapped_file.hpp"
#include "spmm/io.hpp"
#include "spmm/types.hpp"

namespace spmm::io {

/// How the temporary file is made.
enum class TempKind : std::uint8_t {
  automatic,  ///< without a name (O_TMPFILE) where the file system can: nothing is left even after SIGKILL
  named,      ///< .NAME.spmm-XXXXXX.tmp next to the target
  shared,     ///< .NAME.spmm-mpi.tmp: a second run with the same target finds it locked, and is refused
};

/// A temporary file in the folder of the target, which takes the target's place in publish(). An existing target
/// keeps its permission bits; a symbolic link stays and what it points to is replaced; a character device is
/// written in place. The destructor removes an unpublished file; so does remove_temporary_files().
/// Threads: write_at() may be called from several threads at once.
class OutputFile {
 public:
  /// Values: maps = write through shared mappings where space can be reserved and no other process can cut the file;
  /// elsewhere, and without it, by pwrite. Errors: OutputError.
  OutputFile(const std::filesystem::path& path, const FileSinkOptions& options, TempKind kind = TempKind::automatic,
             bool maps = false);
  /// A file that another process has made and will publish: this one writes into it and flushes.
  /// Values: name = of the target, for messages.
  OutputFile(const std::string& name, Descriptor file, bool is_device, const FileSinkOptions& options);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  [[nodiscard]] const std::string& name() const { return target_.name; }
  [[nodiscard]] bool is_device() const { return target_.is_device; }
  /// Absolute, for other processes: of the temporary file with a name, or of the device.
  [[nodiscard]] std::filesystem::path temporary_path() const;

  /// Says how long the file will be at least, for messages and to reserve the space of long files: writers that need
  /// not find blocks or move the end of the file were 10 to 20 % faster when nothing else ran. Threads: one at a time,
  /// not at the same time as finish().
  void expect_bytes(std::uint64_t bytes);

  /// For messages alone: about how long the file, or all files of a result, will be.
  void expect_result(std::uint64_t bytes) { result_bytes_ = bytes; }

  /// Writes all of `bytes` at `offset`. Errors: IoError.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Copies what was written; false if the file is a device. No write may be in progress. Errors: IoError.
  bool read_at(std::uint64_t offset, std::span<std::byte> dst) const;

  /// Writes the header; call it after the last write_at(). Errors: IoError (also of earlier writes that a network
  /// file system reports late).
  void finish(const MatrixHeader& header);

  /// The same for a file that has no header of a matrix.
  void finish();

  /// The same for a file of several processes, after each has called flush(). Values: end = of the bytes of all.
  void finish(const MatrixHeader& header, std::uint64_t end);

  /// After this process's last byte: what network file systems report late, and fsync if asked for. Errors: IoError.
  void flush();

  /// Makes the file visible under its name at once. Errors: OutputError, IoError, std::logic_error (not finished).
  void publish();

 private:
  void open_device();
  void reserve(std::uint64_t end);
  bool open_unnamed(mode_t mode);
  void open_named(mode_t mode, bool is_shared);
  void remove_abandoned(const std::string& name) const;
  void publish_unnamed();
  void publish_named();
  void replace_target(const ProtectedSection& section);
  [[noreturn]] void throw_write_error(int error, std::uint64_t offset) const;

  FileSinkOptions options_;
  Target target_;
  Descriptor fd_;
  TemporaryName temp_name_;  ///< not set: the file has no name, or is published
  std::atomic<std::uint64_t> written_bytes_{0};
  std::atomic<std::uint64_t> end_bytes_{0};  ///< behind the last byte written
  std::atomic<std::uint64_t> expected_bytes_{0};
  std::uint64_t result_bytes_ = 0;  ///< 0: not known
  std::uint64_t reserved_bytes_ = 0;
  bool reserves_ = true;  ///< false once the file system has refused
  bool maps_ = false;     ///< what is reserved from now on is written through mappings
  MappedFile mapped_;
  bool finished_ = false;
  bool published_ = false;
};

}  // namespace spmm::io
