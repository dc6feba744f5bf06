// Runs every file of the corpus through its target, with any compiler: fuzz_replay CORPUS [TARGET]
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/fuzz_targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
using spmm::fuzz::kTargets;

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: fuzz_replay CORPUS [TARGET]\n";
    return 2;
  }
  const std::string only = argc > 2 ? argv[2] : "";
  std::size_t num_targets = 0;
  for (const auto& target : kTargets) {
    if (!only.empty() && only != target.name) continue;
    spmm::fuzz::select_target(target.name);
    const std::vector<fs::path> files = files_of(fs::path(argv[1]) / target.name);
    for (const fs::path& file : files) {
      std::ifstream in(file, std::ios::binary);
      const std::string content{std::istreambuf_iterator<char>(in), {}};
      std::cout << target.name << "/" << file.filename().string() << std::endl;  // the last line names a culprit
      // A copy of exactly that size: sanitizers see what reads beyond it.
      const std::vector<std::uint8_t> bytes(content.begin(), content.end());
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
    std::cout << target.name << ": " << files.size() << " inputs\n";
    if (files.empty()) return 1;
    ++num_targets;
  }
  return num_targets == 0 ? 2 : 0;
}
