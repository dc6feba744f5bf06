// Files of other formats, made by hand.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "support/process.hpp"
#include "unit/tools/tool_support.hpp"

namespace spmm::test {

inline void write_content(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline ProcessResult run_convert(const std::vector<std::string>& arguments) {
  return run_tool("convert", arguments);
}

}  // namespace spmm::test
