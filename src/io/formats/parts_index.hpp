// The index of a result in parts: what the files of the folder are, and how it is written and read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "spmm/report.hpp"
#include "spmm/types.hpp"

namespace spmm::io {

inline constexpr const char* kIndexName = "index.json";

/// "part-007.bin": names sort as their block rows do.
std::string part_name(std::uint32_t number);

/// All names that such a folder holds.
std::vector<std::string> parts_file_names(std::uint32_t num_parts);

/// Whether a folder of parts, complete or not, may hold a file of this name.
bool is_part_file_name(const std::string& name);

struct PartsIndex {
  std::uint32_t n = 0;
  std::uint32_t m = 0;
  std::uint64_t num_blocks = 0;     ///< of the whole: may exceed 2^32 - 1
  std::vector<ResultPart> parts{};  ///< in order of their block rows, which they share without a gap
};

/// The index of these parts. Values: header = n and m of the whole.
PartsIndex index_of(const MatrixHeader& header, std::vector<ResultPart> parts);

std::string index_text(const PartsIndex& index);

/// Values: the result is consistent: names, ranges, sums and lengths agree. Memory: about twice the text at most.
/// Errors: FormatError that names the file.
PartsIndex parse_index(const std::string& text, const std::string& name);

/// Reads the index of a folder. Errors: InputError (cannot open the folder), FormatError, IoError.
PartsIndex read_parts_index(const std::filesystem::path& folder);

/// Reads the index in an open folder. Errors: FormatError (none there, or not a valid one), IoError.
PartsIndex read_index_at(int folder_fd, const std::string& folder_name);

}  // namespace spmm::io
