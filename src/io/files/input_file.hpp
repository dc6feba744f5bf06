// A matrix file that is read by position.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "io/formats/format.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/io.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm::io {

/// Opens a file for reading. Errors: InputError, also for what is not a regular file.
Descriptor open_regular_file(const std::string& name);

/// An open matrix file of either type of elements whose header fits its length.
/// Memory: none beyond the object; records go straight to the caller's buffers. A memory map would end the process by
/// SIGBUS when the file shrinks, and would cost a page fault per page on the way into staging buffers.
/// Threads: const members may be called from several threads at once.
class InputFile final : public Source {
 public:
  /// Errors: InputError (cannot open, no regular file), FormatError (header, length, a format of other programs or
  /// versions), IoError.
  InputFile(const std::filesystem::path& path, ElementType type);

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] std::uint64_t num_records() const { return header_.num_blocks; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::uint64_t record_bytes() const { return record_bytes_; }
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }

  /// Starts reading the first part of the file into the page cache.
  void prefetch() const override;

  /// Shapes: dst [count * record_bytes()].
  /// Errors: FormatError (the file became shorter), IoError, std::out_of_range.
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;

  [[nodiscard]] std::string place(std::uint64_t record) const override;

  /// Errors: FormatError if the length differs from the one at opening.
  void check_unchanged() const override;

  /// What the file is known by now; a change in the same tick of the file system's clock is not seen. Errors: IoError.
  [[nodiscard]] std::string identity() const override;

 private:
  void read_at(std::uint64_t offset, std::span<std::byte> dst) const;
  [[nodiscard]] struct stat current_state() const;
  [[nodiscard]] std::uint64_t current_bytes() const;

  std::string name_;
  Descriptor fd_;
  MatrixHeader header_;
  std::uint64_t record_bytes_ = 0;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace spmm::io
