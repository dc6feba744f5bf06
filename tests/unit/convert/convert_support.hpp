// Files of other formats, made by hand.
#pragma once

#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/process.hpp"
#include "tools/convert/npy_header.hpp"
#include "tools/convert/zip_files.hpp"
#include "unit/tools/tool_support.hpp"

namespace spmm::test {

inline void write_content(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// Little-endian bytes of numbers.
template <class T>
std::string packed(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::string npy(const std::string& descr, const std::vector<std::uint64_t>& shape, const std::vector<T>& values) {
  return tools::make_npy_header(descr, shape) + packed(values);
}

/// A head of version 1 with this dictionary.
inline std::string npy_with_head(const std::string& dictionary, const std::string& data = "") {
  const std::string length = {static_cast<char>(dictionary.size() & 0xFF), static_cast<char>(dictionary.size() >> 8)};
  return std::string("\x93NUMPY\1\0", 8) + length + dictionary + data;
}

using Members = std::vector<std::pair<std::string, std::string>>;

/// Writes an archive of members with these names (without .npy) and contents.
inline void write_archive(const std::string& path, const Members& members, bool deflated = false) {
  std::vector<tools::ZipMember> sources;
  for (const auto& [name, content] : members) {
    const auto is_out = std::make_shared<bool>(false);
    sources.push_back({.name = name + ".npy",
                       .bytes = content.size(),
                       .more =
                           [is_out, bytes = content](std::vector<std::byte>& to) {
                             if (std::exchange(*is_out, true)) return;
                             for (const char c : bytes) to.push_back(static_cast<std::byte>(c));
                           },
                       .start = [is_out] { *is_out = false; }});
  }
  tools::write_zip(path, sources, deflated);
}

/// The members of [[0, 7], [5, 0]] in csr, as save_npz writes them.
inline Members csr_members() {
  return {{"indices", npy<std::int32_t>("<i4", {2}, {1, 0})},
          {"indptr", npy<std::int32_t>("<i4", {3}, {0, 1, 2})},
          {"format", npy<char>("|S3", {}, {'c', 's', 'r'})},
          {"shape", npy<std::int64_t>("<i8", {2}, {2, 2})},
          {"data", npy<std::int64_t>("<i8", {2}, {7, 5})}};
}

/// The same with one member replaced, or taken away where the content is "".
inline Members csr_with(const std::string& name, const std::string& content) {
  Members members;
  for (auto& member : csr_members()) {
    if (member.first != name) {
      members.push_back(member);
    } else if (!content.empty()) {
      members.emplace_back(name, content);
    }
  }
  return members;
}

inline ProcessResult run_convert(const std::vector<std::string>& arguments) {
  return run_tool("convert", arguments);
}

}  // namespace spmm::test
