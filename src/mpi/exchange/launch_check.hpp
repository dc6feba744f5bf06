// Whether the launcher and MPI agree on how many ranks there are. A pure function.
#pragma once

#include <functional>
#include <string>

namespace spmm::mpi {

/// Value of an environment variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// What the launcher says against `size`, the number of ranks that see each other: each of several tasks that are alone
/// would compute the whole product and write the same output. Empty: nothing.
std::string launcher_complaint(int size, const Environment& environment);

}  // namespace spmm::mpi
