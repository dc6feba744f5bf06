// Matrix files of other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace spmm::io {

enum class ForeignFormat : std::uint8_t { none, matrix_market, npy, npz, gzip, hdf5, text };

/// What a file with these first bytes is; 12 of them are enough.
ForeignFormat find_foreign_format(std::span<const std::byte> first_bytes);

/// Errors: FormatError that names the command which converts or unpacks the file, if its first bytes are of a foreign
/// format.
void reject_foreign_format(std::span<const std::byte> first_bytes, const std::string& name);

/// What to do about a result that is given as an operand: the command that makes one of it.
std::string operand_hint(const std::string& result_name);

/// Refuses an output in the block-sparse form whose name ends as that of another format does. Errors: UsageError that
/// names the command which makes that format.
void reject_foreign_ending(const std::string& out);

}  // namespace spmm::io
