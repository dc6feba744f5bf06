// What the tests of files share: folders, bytes, child processes, counted memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "spmm/types.hpp"
#include "support/files.hpp"

namespace spmm::test {

unsigned permissions_of(const std::filesystem::path& path);

/// Little-endian bytes of the values, one after the other.
template <class... Values>
std::string packed(const Values&... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  return bytes;
}

/// Of a matrix without blocks.
inline constexpr MatrixHeader kHeader = {.n = 4, .m = 4, .num_blocks = 0};

/// The 12 bytes of a header.
std::string header_bytes(std::uint32_t n, std::uint32_t m, std::uint32_t k);

/// One packed record; element e has the value first + e.
template <class T>
std::string record(std::uint32_t m, std::uint32_t i, std::uint32_t j, std::uint64_t first = 1) {
  std::string bytes = packed(i, j);
  for (std::uint32_t e = 0; e < m * m; ++e) bytes += packed(static_cast<T>(first + e));
  return bytes;
}
inline std::string record16(std::uint32_t m, std::uint32_t i, std::uint32_t j) {
  return record<std::uint16_t>(m, i, j);
}
inline std::string record32(std::uint32_t m, std::uint32_t i, std::uint32_t j) {
  return record<std::uint32_t>(m, i, j);
}

/// `count` result records in order, all different.
std::string result_records(std::uint32_t m, std::uint32_t count);

/// Whether a message has the parts "<where>: <problem>; <hint>" with this file in front.
bool names_place_and_hint(const std::string& message, const std::filesystem::path& file);

/// Runs `body` in a child process and returns the text it returned, or "exception: ..." / "signal ...".
std::string in_child(const std::function<std::string()>& body);

/// In a child process: continue as a user without special rights.
void drop_rights();

/// Whether the folder's file system can make files without a name.
bool has_unnamed_files(const std::filesystem::path& folder);

}  // namespace spmm::test
