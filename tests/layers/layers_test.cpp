// Includes point one way only, files stay short; and the check itself fires.
#include "layers/layers.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/catch.hpp"
#include "test_paths.hpp"

namespace {

namespace fs = std::filesystem;
using layers::complaints;

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

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
    for (const std::string& problem : complaints(path, content_of(fs::path(SPMM_SOURCE_DIR) / path), all))
      found += problem + "\n";
  }
  CHECK(found == "");
}

TEST_CASE("a planted include is judged") {
  const std::vector<Planted> table = {
      {"include/spmm/io.hpp", "#include \"spmm/types.hpp\"", ""},
      {"include/spmm/io.hpp", "#include \"io/formats/format.hpp\"",
       "include may not include src/io/formats/format.hpp"},
      {"include/spmm/io.hpp", "#include <cuda_runtime.h>", "include may not include <cuda_runtime.h>"},
      {"include/spmm/io.hpp", "#include <nlohmann/json.hpp>", "include may not include <nlohmann/json.hpp>"},
      {"include/spmm/io.hpp", "#include <vector>", ""},
      {"kernels/mul.cu", "#include \"warp.cuh\"", ""},
      {"kernels/mul.cu", "#include <cub/cub.cuh>", ""},
      {"kernels/mul.cu", "#include \"base/text.hpp\"", "kernels may not include src/base/text.hpp"},
      {"src/plan/planner.cpp", "#include \"kernels/tuning.hpp\"", ""},
      {"src/plan/planner.cpp", "#include \"kernels/small/launch.hpp\"",
       "src/plan may not include kernels/small/launch.hpp"},
      {"src/plan/planner.cpp", "#include \"cuda/buffer.hpp\"", "src/plan may not include src/cuda/buffer.hpp"},
      {"src/cuda/pipeline.cpp", "#include \"kernels/small/launch.hpp\"", ""},
      {"src/cuda/pipeline.cpp", "#include \"kernels/warp.cuh\"", "a .cuh stays inside kernels/"},
      {"src/cuda/pipeline.cpp", "  #  include \"cli/options.hpp\"", "src/cuda may not include src/cli/options.hpp"},
      {"src/io/formats/format.cpp", "#include \"verify/x.hpp\"", "src/io may not include src/verify/x.hpp"},
      {"src/cpu/rows.cpp", "#include \"io/formats/format.hpp\"", "src/cpu may not include src/io/formats/format.hpp"},
      {"src/cpu/rows.cpp", "#include \"base/text.hpp\"", ""},
      {"src/io/system/a.cpp", "#include \"io/formats/format.hpp\"",
       "a lower wing of src/io may not include src/io/formats/format.hpp"},
      {"src/verify/y.cpp", "#include \"verify/x.hpp\"", ""},
      {"src/cpu/rows.cpp", "#include \"plan/planner.hpp\"", ""},
      {"src/plan/planner.cpp", "#include \"cpu/rows.hpp\"", "no file of this repository"},
      {"src/base/text.cpp", "#include \"io/formats/format.hpp\"", "src/base may not include src/io/formats/format.hpp"},
      {"src/engine/multiply.cpp", "#include \"cuda/buffer.hpp\"", ""},
      {"src/engine/multiply.cpp", "#include \"cli/options.hpp\"", "src/engine may not include src/cli/options.hpp"},
      {"src/engine/multiply.cpp", "#include \"kernels/small/launch.hpp\"",
       "src/engine may not include kernels/small/launch.hpp"},
      {"src/engine/multiply.cpp", "#include \"verify/x.cpp\"", "is not a header"},
      {"src/engine/multiply.cpp", "#include \"spmm/typo.hpp\"", "no file of this repository"},
      {"src/engine/multiply.cpp", "#include <spmm/types.hpp>", "write quotes"},
      {"src/capi/c.cpp", "#include \"spmm/types.hpp\"", ""},
      {"src/capi/c.cpp", "#include \"base/text.hpp\"", "src/capi may not include src/base/text.hpp"},
      {"src/cli/main.cpp", "#include <cxxopts.hpp>", ""},
      {"src/cli/main.cpp", "#include \"plan/planner.hpp\"", "src/cli may not include src/plan/planner.hpp"},
      {"tools/spmm_gen.cpp", "#include \"cli/options.hpp\"", ""},
      {"tools/spmm_gen.cpp", "#include <cxxopts.hpp>", "may not include"},
      {"tools/spmm_gen.cpp", "#include \"cuda/buffer.hpp\"", "tools may not include src/cuda/buffer.hpp"},
      {"src/newfolder/x.cpp", "", "belongs to no layer"},
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
