// Bytes of a file from front to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace spmm::tools {

class ByteInput {
 public:
  virtual ~ByteInput() = default;

  /// What messages call it.
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Reads as many bytes as there are, at most dst.size(). Errors: IoError, Interrupted.
  virtual std::size_t read(std::span<std::byte> dst) = 0;

  /// Fills dst. Errors: as read(); FormatError if the bytes end before that.
  void read_exactly(std::span<std::byte> dst);
};

/// Errors: InputError.
std::unique_ptr<ByteInput> open_byte_input(const std::filesystem::path& path);

}  // namespace spmm::tools
