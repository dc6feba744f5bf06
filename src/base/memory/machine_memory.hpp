// Host memory of this machine and this process.
#pragma once

#include <cstdint>
#include <filesystem>

namespace spmm {

/// Bytes this process may still take: what the machine or its control groups leave, whichever is less. Source: /proc
/// and control_group_available_bytes(), below `root`; without /proc, sysinfo().
std::uint64_t available_memory_bytes(const std::filesystem::path& root = "/");

/// Largest resident set of this process so far.
std::uint64_t peak_resident_bytes();

}  // namespace spmm
