// Limits of the control groups of this process.
#pragma once

#include <cstdint>
#include <filesystem>

namespace spmm {

/// Bytes that the control groups of this process leave it, the tightest of all levels from its own group up to the
/// mounted root, for version 2 (memory.max, memory.high) and version 1; UINT64_MAX if there is no limit.
/// Page cache that the kernel would give back (file pages on its LRU lists) does not count as used.
/// Source: proc/self/cgroup, proc/self/mountinfo and the mounted hierarchies, all below `root`.
std::uint64_t control_group_available_bytes(const std::filesystem::path& root = "/");

/// Cores whose time the control groups of this process leave it, rounded up: the lowest quota of all levels (cpu.max,
/// or cpu.cfs_quota_us of version 1); UINT_MAX if there is none. Source: as above.
unsigned control_group_cores(const std::filesystem::path& root = "/");

}  // namespace spmm
