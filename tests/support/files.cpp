#include "support/files.hpp"

#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace spmm::test {

namespace fs = std::filesystem;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const fs::path& path, const std::string& bytes) {
  if (!(std::ofstream(path, std::ios::binary) << bytes).flush())
    throw std::runtime_error("cannot write " + path.string());
}

std::vector<std::string> names_in(const fs::path& folder, const std::vector<std::string>& known) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (std::find(known.begin(), known.end(), name) == known.end()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "spmm-tests-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = pattern;
  fs::permissions(path_, fs::perms::all);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

WorkingFolder::WorkingFolder() : before_(fs::current_path()) {
  fs::current_path(folder_.path());
}

WorkingFolder::~WorkingFolder() {
  std::error_code ignored;
  fs::current_path(before_, ignored);
}

}  // namespace spmm::test
