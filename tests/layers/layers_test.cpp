// Includes point one way only, files stay short; and the check itself fires.
#include "layers/layers.hpp"

#include <filesystem>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "test_paths.hpp"

namespace {

namespace fs = std::filesystem;
using layers::complaints;
using spmm::test::bytes_of;

/// Source files below some folders of the repository, as paths from its root.
std::vector<std::string> sources_below(const std::vector<std::string>& folders) {
  const fs::path root = SPMM_SOURCE_DIR;
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string end = entry.path().extension().string();
      if (end != ".hpp" && end != ".cpp" && end != ".cu" && end != ".cuh" && end != ".h") continue;
      paths.push_back(entry.path().lexically_relative(root).generic_string());
    }
  }
  return paths;
}

const std::vector<std::string> kKnown = {"include/spmm/types.hpp",   "src/io/formats/format.hpp", "src/base/text.hpp",
                                         "src/plan/planner.hpp",     "src/cuda/buffer.hpp",       "src/cli/options.hpp",
                                         "src/verify/x.hpp",         "src/verify/x.cpp",          "kernels/tuning.hpp",
                                         "kernels/small/launch.hpp", "kernels/warp.cuh"};

struct Planted {
  std::string path;
  std::string line;
  std::string complaint;  // part of the message; "" = allowed
};

}  // namespace

TEST_CASE("every include of the tree points the right way and files are short") {
  const auto all = sources_below({"include", "kernels", "src", "tools"});
  CHECK(all.size() > 20);
  std::string found;
  for (const std::string& path : all) {
    for (const std::string& problem : complaints(path, bytes_of(fs::path(SPMM_SOURCE_DIR) / path), all))
      found += problem + "\n";
  }
  CHECK(found == "");
}

TEST_CASE("a planted include is judged") {
  const std::vector<Planted> table = {
      {"include/spmm/io.hpp", "#include \"spmm/types.hpp\"", ""},
      {"include/spmm/io.hpp", "#include \"io/formats/format.hpp\"", "may not include src/io/formats/format.hpp"},
      {"include/spmm/io.hpp", "#include <nlohmann/json.hpp>", "include may not include <nlohmann/json.hpp>"},
      {"kernels/mul.cu", "#include <cub/cub.cuh>", ""},
      {"kernels/mul.cu", "#include \"base/text.hpp\"", "kernels may not include src/base/text.hpp"},
      {"src/cuda/pipeline.cpp", "#include \"kernels/warp.cuh\"", "a .cuh stays inside kernels/"},
      {"src/cuda/pipeline.cpp", "  #  include \"cli/options.hpp\"", "src/cuda may not include src/cli/options.hpp"},
      {"src/io/system/a.cpp", "#include \"io/formats/format.hpp\"", "a lower wing of src/io may not include"},
      {"src/plan/planner.cpp", "#include \"cpu/rows.hpp\"", "no file of this repository"},
      {"src/engine/multiply.cpp", "#include \"verify/x.cpp\"", "is not a header"},
      {"src/engine/multiply.cpp", "#include <spmm/types.hpp>", "write quotes"},
      {"tools/spmm_gen.cpp", "#include <cxxopts.hpp>", "may not include"},
  };
  for (const Planted& planted : table) {
    const auto found = complaints(planted.path, "// a comment\n" + planted.line + "\n", kKnown);
    INFO(planted.path << " with " << planted.line << ": " << (found.empty() ? "no complaint" : found.front()));
    CHECK(found.size() == (planted.complaint.empty() ? 0 : 1));
    if (!found.empty()) CHECK(found.front().find(planted.complaint) != std::string::npos);
  }
}

TEST_CASE("the complaint names file and line, and comments are no includes") {
  const auto found =
      complaints("src/io/formats/format.cpp", "\n// #include \"verify/x.hpp\"\n#include \"verify/x.hpp\"\n", kKnown);
  REQUIRE(found.size() == 1);
  CHECK(found.front() == "src/io/formats/format.cpp:3: src/io may not include src/verify/x.hpp");
}
