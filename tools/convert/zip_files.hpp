// Members of zip archives. In a build without libzip all of it throws DeviceError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/convert/byte_input.hpp"

namespace spmm::tools {

/// An archive that is read. Members may be read at the same time, each as often as wanted.
class ZipInput {
 public:
  virtual ~ZipInput() = default;

  [[nodiscard]] virtual bool has(const std::string& member) const = 0;
  /// Errors: FormatError (no such member, encrypted, neither stored nor deflated, a length that the packed bytes cannot
  /// have).
  virtual std::unique_ptr<ByteInput> open(const std::string& member) = 0;
};

/// Errors: FormatError (not an archive, damaged), InputError, DeviceError.
std::unique_ptr<ZipInput> open_zip(const std::filesystem::path& path);

/// A member that is to be written. Its bytes are asked for piece by piece.
struct ZipMember {
  std::string name;
  std::uint64_t bytes = 0;
  /// Appends the next bytes; appends nothing at the end. It is called again from the first byte on after start().
  std::function<void(std::vector<std::byte>& to)> more;
  std::function<void()> start;
  std::string from{};  ///< where its bytes come from, for a message where they are not as many
};

/// Writes an archive (zip64 where its size asks for that). The same members give the same bytes. Memory: pieces of
/// the members. Errors: those of the members, OutputError, IoError, DeviceError.
void write_zip(const std::filesystem::path& path, const std::vector<ZipMember>& members, bool deflated);

}  // namespace spmm::tools
