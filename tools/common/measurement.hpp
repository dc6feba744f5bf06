// What every measurement file says first: which program of which revision was run, how, when and where.
#pragma once

#include <string>
#include <vector>

#include "tools/common/json.hpp"

namespace spmm::tools {

/// Layout of the measurement files of spmm-bench and spmm-dense. It grows when a reader of the old layout would misread
/// the new one; new keys alone do not count.
inline constexpr int kMeasurementSchema = 1;

/// Keys: schema, program, version, revision (of git), date (UTC), command, machine {cpu, cores, memory_bytes, and
/// nvidia_driver if there is one}.
Json measurement_head(const std::string& program, const std::vector<std::string>& command);

/// The revision in a text like "spmm 0.1.0 (git 0123456789ab), ..."; "unknown" if there is none.
std::string revision_of(const std::string& version);

/// "580.65.06" from the first line of /proc/driver/nvidia/version; "" if there is no version in it.
std::string driver_version_of(const std::string& line);

}  // namespace spmm::tools
