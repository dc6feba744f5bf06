// Host memory and cores of this machine and this process.
#pragma once

#include <cstdint>
#include <filesystem>

namespace spmm {

/// Bytes this process may still take: what the machine or its control groups leave, whichever is less. Source: /proc
/// and control_group_available_bytes(), below `root`; without /proc, sysinfo().
std::uint64_t available_memory_bytes(const std::filesystem::path& root = "/");

/// Largest resident set of this process so far.
std::uint64_t peak_resident_bytes();

/// Bytes that the control groups of this process leave it, the tightest of all levels from its own group up to the
/// mounted root, for version 2 (memory.max, memory.high) and version 1; UINT64_MAX if there is no limit.
/// Page cache that the kernel would give back (file pages on its LRU lists) does not count as used.
/// Source: proc/self/cgroup and the hierarchies at sys/fs/cgroup, all below `root`.
std::uint64_t control_group_available_bytes(const std::filesystem::path& root = "/");

/// Cores whose time the control groups of this process leave it, rounded up: the lowest quota of all levels (cpu.max,
/// or cpu.cfs_quota_us of version 1); UINT_MAX if there is none. Source: as above.
unsigned control_group_cores(const std::filesystem::path& root = "/");

}  // namespace spmm
