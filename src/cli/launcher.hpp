// What launchers announce in variables: how many processes they have started together.
#pragma once

#include <cstdlib>
#include <functional>
#include <string>

namespace spmm::cli {

/// Value of an environment variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// What the launcher says against `size`, the number of ranks that see each other: each of several tasks that are alone
/// would compute the whole product and write the same output. Empty: nothing.
std::string launcher_complaint(int size, const Environment& environment = ::getenv);

/// What the first of several processes says if each of them runs a whole product; empty for one process and for the
/// others.
std::string lone_process_warning(const Environment& environment = ::getenv);

}  // namespace spmm::cli
