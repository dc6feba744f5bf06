// measure.sh with a program in place of spmm-bench that only notes how it was called.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"
#include "tools/bench/suites.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// Writes its arguments, one a line, into the file that --json names; a run on the CPU fails afterwards.
constexpr const char* kStub = R"(#!/usr/bin/env bash
for ((i = 1; i <= $#; ++i)); do
  if [[ ${!i} == --json ]]; then next=$((i + 1)); printf '%s\n' "$@" >"${!next}"; fi
done
if [[ "$*" == *"--backend cpu"* ]]; then exit 1; fi
)";

Words names_in(const fs::path& folder) {
  Words names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

Words words_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The names behind an option, cut at commas.
Words option_names(const Words& arguments, const std::string& option) {
  const auto found = std::find(arguments.begin(), arguments.end(), option);
  Words names;
  if (found == arguments.end()) return names;
  std::istringstream in(*(found + 1));
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("measure.sh: a file a step, of cases and kernels that there are; a failure spares the other steps",
          "[tools][measure]") {
  const TemporaryFolder folder;
  fs::create_directories(folder.file("bin"));
  std::ofstream(folder.file("bin/spmm-bench")) << kStub;
  fs::permissions(folder.file("bin/spmm-bench"), fs::perms::owner_all);
  const auto measure = [&](const Words& steps) {
    Words words = {"/usr/bin/env",
                   "bash",
                   SPMM_SOURCE_DIR "/tools/scripts/measure.sh",
                   "--bin",
                   folder.file("bin"),
                   "--out",
                   folder.file("out"),
                   "--work",
                   folder.file("work")};
    words.insert(words.end(), steps.begin(), steps.end());
    return run_process(words);
  };
  const ProcessResult result =
      measure({"--cpu", "speed", "reference", "density", "shapes", "patterns", "patterns-rest", "sides"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 1);
  CHECK(result.err.find("failed or found a wrong result: cpu") != std::string::npos);
  CHECK(names_in(folder.file("out")) == Words{"cpu-speed.json", "gpu-density.json", "gpu-patterns-rest.json",
                                              "gpu-patterns.json", "gpu-reference.json", "gpu-shapes.json",
                                              "gpu-sides.json", "gpu-speed.json"});
  // Each is one of the published files, and what it names exists.
  Words read;
  for (const auto& entry : fs::directory_iterator(SPMM_SOURCE_DIR "/data/measurements")) {
    read.push_back(entry.path().filename());
  }
  for (const std::string& name : names_in(folder.file("out"))) {
    INFO(name);
    CHECK((std::count(read.begin(), read.end(), name) == 1 || name == "gpu-patterns-rest.json"));  // optional
    const Words arguments = words_of(content_of(folder.file("out/") + name));
    const auto suites = tools::load_suites(SPMM_SOURCE_DIR "/data/suites.json");
    CHECK_FALSE(
        tools::select_cases(suites, option_names(arguments, "--suite"), option_names(arguments, "--case")).empty());
    for (const std::string& kernel : option_names(arguments, "--kernel")) {
      const auto& known = kernel_names();
      CHECK(std::any_of(known.begin(), known.end(), [&](const KernelInfo& one) { return one.name == kernel; }));
    }
  }
  CHECK(measure({"speed"}).exit_code == 0);
  CHECK(measure({"sped"}).exit_code == 2);
  const ProcessResult without = measure({"cusparse"});  // without CuPy, a GPU, or spmm-gen in that folder
  CHECK(without.exit_code == 1);
  CHECK(without.err.find("cusparse_bench.py: error: ") != std::string::npos);
}
