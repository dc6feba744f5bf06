#include "layers/layers.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <regex>
#include <sstream>

namespace layers {
namespace {

/// A layer: files below `prefix`, and what they may include in addition to their own layer.
struct Layer {
  std::string prefix;
  std::vector<std::string> allowed;   ///< layers, or single files
  std::vector<std::string> packages;  ///< beginnings of <...> names beyond the standard library and POSIX
  std::vector<std::string> wings{};   ///< its folders from the bottom up, "" = files of its own; empty: in any order
};

const std::vector<Layer>& all_layers() {
  static const std::vector<Layer> kLayers = {
      {"include", {}, {}},
      {"kernels", {"include"}, {"cuda", "cub/", "thrust/", "cooperative_groups", "nvtx3/", "mma.h"}},
      {"src/base", {"include"}, {}, {"", "records", "memory", "run"}},
      {"src/io", {"include", "src/base"}, {}, {"system", "formats", "memory", "files", ""}},
      {"src/cpu", {"include", "src/base", "src/plan"}, {}, {"simd", "operands", "output", "rows", "chains", ""}},
      {"src/plan",
       {"include", "src/base", "kernels/tuning.hpp", "kernels/tiles/grid.hpp", "kernels/dense/layout.hpp"},
       {},
       {"panels", "inputs", "memory", "models", ""}},
      {"src/cuda",
       {"include", "src/base", "src/plan", "kernels"},
       {"cuda", "nvtx3/"},
       {"device", "operands", "output", "arrays", "multipliers", "", "several"}},
      {"src/verify", {"include", "src/base"}, {}},
      {"src/engine", {"include", "src/base", "src/io", "src/cpu", "src/plan", "src/cuda", "src/verify"}, {}},
      {"src/mpi",
       {"include", "src/base", "src/io", "src/cpu", "src/plan", "src/cuda", "src/verify", "src/engine"},
       {"mpi"}},
      {"src/capi", {"include", "src/report/json.hpp"}, {}},
      {"src/report", {"include", "src/base", "src/io"}, {}},
      {"src/cli", {"include", "src/base", "src/io", "src/report", "src/engine/backend_choice.hpp"}, {"cxxopts.hpp"}},
      {"tools/dense",
       {"include", "src/base", "src/io", "src/cli", "src/report", "src/cuda", "kernels", "tools"},
       {"cuda", "nlohmann/"}},
      {"tools/bench", {"include", "src/base", "src/io", "src/cli", "src/report", "tools"}, {"nlohmann/"}},
      {"tools/batch", {"include", "src/base", "src/io", "src/cli", "src/report", "tools"}, {"nlohmann/"}},
      {"tools/mpi", {"include", "src/base", "src/io", "src/cli", "src/report", "src/mpi", "tools"}, {}},
      {"tools/verify", {"include", "src/base", "src/io", "src/cli", "src/report", "src/verify", "tools"}, {}},
      {"tools/convert", {"include", "src/base", "src/io", "src/cli", "src/report", "tools"}, {}},
      {"tools", {"include", "src/base", "src/io", "src/cli", "src/report"}, {"nlohmann/"}},
  };
  return kLayers;
}

/// Everything that some layer may include beyond the standard library: who is not on its own list may not.
bool is_package(std::string_view name) {
  const auto starts = [&](const std::string& prefix) { return name.substr(0, prefix.size()) == prefix; };
  return std::any_of(all_layers().begin(), all_layers().end(), [&](const Layer& layer) {
    return std::any_of(layer.packages.begin(), layer.packages.end(), starts);
  });
}

bool is_below(std::string_view path, std::string_view prefix) {
  return path.substr(0, prefix.size()) == prefix && path.size() > prefix.size() && path[prefix.size()] == '/';
}

const Layer* find_layer(std::string_view path) {
  for (const Layer& layer : all_layers()) {
    if (!is_below(path, layer.prefix)) continue;
    return &layer;
  }
  return nullptr;
}

bool ends_with(std::string_view name, std::string_view end) {
  return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
}

/// Where the compiler finds a quoted include: next to the file, then include/, src/, the root.
std::optional<std::string> resolve(const std::string& path, const std::string& name,
                                   const std::vector<std::string>& known) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const std::filesystem::path& start :
       {folder, std::filesystem::path("include"), std::filesystem::path("src"), std::filesystem::path()}) {
    const std::string candidate = (start / name).lexically_normal().generic_string();
    if (std::find(known.begin(), known.end(), candidate) != known.end()) return candidate;
  }
  return std::nullopt;
}

/// Place of a file's wing from the bottom; the same for all where the wings have no order.
std::ptrdiff_t wing_number(const Layer& layer, std::string_view path) {
  std::string_view rest = path.substr(layer.prefix.size() + 1);
  const std::size_t slash = rest.find('/');
  const std::string_view wing = slash == std::string_view::npos ? std::string_view{} : rest.substr(0, slash);
  return layer.wings.empty() ? 0 : std::find(layer.wings.begin(), layer.wings.end(), wing) - layer.wings.begin();
}

/// What is wrong with one include of a file in `layer`; empty = nothing.
std::string complaint(const std::string& path, const Layer& layer, const Include& include,
                      const std::vector<std::string>& known) {
  const auto target = resolve(path, include.name, known);
  if (!target) {
    if (include.quoted) return "\"" + include.name + "\" is no file of this repository";
    const auto starts = [&](const std::string& prefix) { return include.name.substr(0, prefix.size()) == prefix; };
    const bool listed = std::any_of(layer.packages.begin(), layer.packages.end(), starts);
    return is_package(include.name) && !listed ? layer.prefix + " may not include <" + include.name + ">" : "";
  }
  if (!include.quoted) return "<" + include.name + "> is a file of this repository: write quotes";
  if (ends_with(*target, ".cuh") && layer.prefix != "kernels") return include.name + ": a .cuh stays inside kernels/";
  if (ends_with(*target, ".cpp") || ends_with(*target, ".cu")) return include.name + " is not a header";
  const Layer* other = find_layer(*target);
  if (other == &layer) {
    if (wing_number(layer, *target) <= wing_number(layer, path)) return "";
    return "a lower wing of " + layer.prefix + " may not include " + *target;
  }
  const auto& allowed = layer.allowed;
  const bool fine = std::find(allowed.begin(), allowed.end(), *target) != allowed.end() ||
                    (other != nullptr && std::find(allowed.begin(), allowed.end(), other->prefix) != allowed.end());
  return fine ? "" : layer.prefix + " may not include " + *target;
}

}  // namespace

std::vector<Include> includes_of(std::string_view source) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> found;
  std::istringstream lines{std::string(source)};
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (line.find("include") == std::string::npos || !std::regex_search(line, match, kInclude)) continue;
    found.push_back({.line = number, .name = match[2], .quoted = match[1] == "\""});
  }
  return found;
}

std::string layer_of(std::string_view path) {
  const Layer* layer = find_layer(path);
  return layer == nullptr ? "" : layer->prefix;
}

std::vector<std::string> complaints(const std::string& path, std::string_view source,
                                    const std::vector<std::string>& known) {
  std::vector<std::string> found;
  const Layer* layer = find_layer(path);
  if (layer == nullptr) {
    found.push_back(path + ": belongs to no layer; add its folder to the table of layers");
    return found;
  }
  for (const Include& include : includes_of(source)) {
    const std::string problem = complaint(path, *layer, include, known);
    if (!problem.empty()) found.push_back(path + ":" + std::to_string(include.line) + ": " + problem);
  }
  return found;
}

}  // namespace layers
