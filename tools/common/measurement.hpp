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

}  // namespace spmm::tools
