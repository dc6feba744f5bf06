// Host memory of this machine and this process.
#pragma once

#include <cstdint>

namespace spmm {

/// Bytes this process may still take: free memory of the machine or of its control group, whichever is less.
std::uint64_t available_memory_bytes();

/// Largest resident set of this process so far.
std::uint64_t peak_resident_bytes();

}  // namespace spmm
