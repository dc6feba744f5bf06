// What may be found in a folder in which products are run with faults.
#pragma once

#include <string>
#include <vector>

#include "support/files.hpp"

namespace spmm::test {

/// Names in the working directory that are none of `known`, with blanks between.
inline std::string other_names(const std::vector<std::string>& known) {
  std::string others;
  for (const std::string& name : names_in(".", known)) others += name + " ";
  return others;
}

inline constexpr const char* kOldOutput = "what an earlier run has written";

}  // namespace spmm::test
