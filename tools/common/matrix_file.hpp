// Matrix files of either element type, read front to back in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "io/files/input_file.hpp"
#include "spmm/io.hpp"
#include "spmm/types.hpp"

namespace spmm::tools {

/// Bytes of records that are read at a time.
inline constexpr std::uint64_t kReadBytes = std::uint64_t{4} << 20;

struct MatrixFile {
  io::InputFile file;
  ElementType type;
};

/// Opens a file with 16-bit or 32-bit elements. The format does not say which: without `type` it is the one that fits
/// the length (16-bit if both do, as in a file without blocks).
/// Errors: InputError, FormatError (speaks of `likely` elements where neither type fits), IoError.
MatrixFile open_matrix(const std::filesystem::path& path, std::optional<ElementType> type, ElementType likely);

/// The option --type u16|u32; nothing if it is not given.
std::optional<ElementType> type_option(const cli::ParsedOptions& parsed);

/// "u16" or "u32".
const char* type_name(ElementType type);

/// Records of `record` bytes that one read takes: about kReadBytes, at least one.
std::uint64_t records_per_read(std::uint64_t record);

/// Element e of a packed record, widened.
inline std::uint32_t element_at(const std::byte* record, ElementType type, std::uint64_t e) {
  const std::byte* values = record + kIndexBytes;
  if (type == ElementType::u16) {
    std::uint16_t value = 0;
    std::memcpy(&value, values + e * 2, 2);
    return value;
  }
  std::uint32_t value = 0;
  std::memcpy(&value, values + e * 4, 4);
  return value;
}

/// Whether all bytes are zero.
inline bool all_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace spmm::tools
