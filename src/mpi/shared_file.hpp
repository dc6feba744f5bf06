// One output file written by all ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "io/files/output_file.hpp"
#include "mpi/communicator.hpp"
#include "spmm/io.hpp"
#include "spmm/types.hpp"

namespace spmm::mpi {

/// A temporary file next to the output, ".NAME.spmm-mpi.tmp", that takes its place in publish(). Rank 0 makes, locks,
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
  /// The other ranks. Values: name and options as rank 0 has them. Errors: OutputError where this machine does not see
  /// the file that rank 0 has made.
  void open(const Bytes& ticket, const std::string& name, const FileSinkOptions& options);

  /// Written in place: what is at which offset means nothing.
  [[nodiscard]] bool is_device() const { return file_->is_device(); }

  /// Threads: any number. Errors: IoError.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) { file_->write_at(offset, bytes); }
  /// Copies what this rank has written; false if the file is a device. No write may be in progress. Errors: IoError.
  bool read_at(std::uint64_t offset, std::span<std::byte> dst) const { return file_->read_at(offset, dst); }
  /// Rank 0: takes space ahead of writes up to `end`, in large steps, if the file system can: writes are faster then.
  void reserve(std::uint64_t end) { file_->expect_bytes(end); }
  /// Each rank, after its last byte. Errors: IoError.
  void flush() { file_->flush(); }
  /// Rank 0, when all ranks have flushed: header and length. Errors: IoError.
  void finish(const MatrixHeader& header, std::uint64_t end);
  /// Rank 0: makes the file visible at once. Errors: OutputError, IoError.
  void publish() { file_->publish(); }

 private:
  FileSinkOptions options_;
  std::string token_;  ///< in the file until it is finished: the same name elsewhere is another file
  std::unique_ptr<io::OutputFile> file_;
};

}  // namespace spmm::mpi
