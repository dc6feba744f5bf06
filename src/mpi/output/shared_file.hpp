// One output file written by all ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/temporary_names.hpp"
#include "io/files/paths.hpp"
#include "io/system/descriptor.hpp"
#include "mpi/exchange/communicator.hpp"
#include "spmm/io.hpp"
#include "spmm/types.hpp"

namespace spmm::mpi {

/// A temporary file beside the output, ".NAME.spmm-mpi.tmp", that takes its place in publish(). Rank 0 makes, locks,
/// publishes and removes it; the other ranks open it. The lock of a killed run is free, and the next
/// run takes the file over. A character device is written in place.
class SharedOutput {
 public:
  SharedOutput() = default;
  SharedOutput(const SharedOutput&) = delete;
  SharedOutput& operator=(const SharedOutput&) = delete;

  /// Rank 0. Errors: OutputError (another run writes the same output; what find_target() says; cannot be created),
  /// IoError.
  void create(const std::filesystem::path& path, const FileSinkOptions& options);
  /// What the other ranks need to open the same file; empty before create().
  [[nodiscard]] Bytes ticket() const;
  /// The other ranks. Errors: OutputError where this machine does not see the file that rank 0 has made.
  void open(const Bytes& ticket);

  /// Threads: any number. Errors: IoError.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
  /// Rank 0: takes space ahead of writes up to `end`, in large steps, where the file system can: writes are faster
  /// then.
  void reserve(std::uint64_t end);
  /// Each rank, after its last byte: what network file systems report late, and fsync where asked for. Errors: IoError.
  void flush() const;
  /// Rank 0, when all ranks have flushed: header and length. Errors: IoError.
  void finish(const MatrixHeader& header, std::uint64_t end);
  /// Rank 0: makes the file visible at once. Errors: OutputError, IoError.
  void publish();

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  bool lock_temporary();
  /// Whether the open file begins with the token: 0; ESTALE, or the error of reading it.
  [[nodiscard]] int find_token() const;
  void keep_permissions() const;
  void sync_folder() const;
  [[noreturn]] void throw_write_error(int error, std::uint64_t offset) const;

  FileSinkOptions options_;
  std::string name_;
  std::string opened_path_;  ///< absolute
  std::string token_;        ///< in the file until it is finished: the same name elsewhere is another file
  bool is_device_ = false;
  bool reserves_ = true;
  std::uint64_t reserved_bytes_ = 0;
  io::Target target_;
  io::Descriptor fd_;
  TemporaryName temp_name_;  // before fd_ goes, the file does: the lock still holds
};

}  // namespace spmm::mpi
