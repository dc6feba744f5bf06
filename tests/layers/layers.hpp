// The rule of the layers, as functions over text, so that the tests can plant bad lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace layers {

/// One #include line.
struct Include {
  std::size_t line = 0;
  std::string name;
  bool quoted = false;  ///< "..." rather than <...>
};

std::vector<Include> includes_of(std::string_view source);

/// Layer of a file by its path from the repository root ("src/io/formats/format.cpp" -> "src/io"); "" if it has none.
std::string layer_of(std::string_view path);

/// What is wrong with one file, one message a line ("path:line: ..."); empty = nothing.
/// Values: known = paths of all files of the tree, from the repository root; includes are looked up among them.
std::vector<std::string> complaints(const std::string& path, std::string_view source,
                                    const std::vector<std::string>& known);

}  // namespace layers
