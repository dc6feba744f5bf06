// What the tests of files share: folders, bytes, child processes, counted memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "spmm/block_matrix.hpp"

namespace spmm::test {

/// A folder of its own that is removed with everything in it; other users may write there.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  /// Names in the folder, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

std::vector<std::string> names_in(const std::filesystem::path& folder);
void write_bytes(const std::filesystem::path& path, const std::string& bytes);
std::string read_bytes(const std::filesystem::path& path);
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

/// The message of the E that `action` throws; anything else fails the test.
template <class E>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  throw std::runtime_error("expected an exception, none was thrown");
}

/// Whether a message has the parts "<where>: <problem>; <hint>" with this file in front.
bool names_place_and_hint(const std::string& message, const std::filesystem::path& file);
bool contains(const std::string& text, const std::string& part);

/// Runs `body` in a child process and returns the text it returned, or "exception: ..." / "signal ...".
std::string in_child(const std::function<std::string()>& body);

/// In a child process: continue as a user without special rights.
void drop_rights();

/// Largest growth of allocated memory (operator new) while `action` runs, in bytes.
std::uint64_t peak_allocation(const std::function<void()>& action);

/// While it lives, allocation number `countdown` (from 0, of all threads) fails; with `lasting` all later ones as well.
class FailingAllocation {
 public:
  FailingAllocation(int countdown, bool lasting);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
};

/// Whether the folder's file system can make files without a name.
bool has_unnamed_files(const std::filesystem::path& folder);

}  // namespace spmm::test
