// Folders in which products are run with faults, and what may be found there afterwards.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/process.hpp"

namespace spmm::test {

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void put_content(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Names in the working directory that are none of `known`, with blanks between.
inline std::string other_names(const std::vector<std::string>& known) {
  std::string others;
  for (const auto& entry : std::filesystem::directory_iterator(".")) {
    const std::string name = entry.path().filename().string();
    if (std::find(known.begin(), known.end(), name) == known.end()) others += name + " ";
  }
  return others;
}

/// A fresh working directory while it lives.
class FaultPlace {
 public:
  FaultPlace() : before_(std::filesystem::current_path()) { std::filesystem::current_path(folder_.path()); }
  ~FaultPlace() {
    std::error_code ignored;
    std::filesystem::current_path(before_, ignored);
  }
  FaultPlace(const FaultPlace&) = delete;
  FaultPlace& operator=(const FaultPlace&) = delete;

 private:
  TemporaryFolder folder_;
  std::filesystem::path before_;
};

inline constexpr const char* kOldOutput = "what an earlier run has written";

}  // namespace spmm::test
