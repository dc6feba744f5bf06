// JSON values of the programs, and the head of their measurement files. nlohmann-json is only named here.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace spmm::tools {

using Json = nlohmann::ordered_json;

/// As cli::write_json_text(), two blanks for each level. File names need not be UTF-8; what is not becomes U+FFFD.
void write_json(const std::string& path, const Json& json);

/// Reads a JSON file. Errors: InputError, FormatError.
Json read_json(const std::string& path);

/// Median, least and largest of some numbers: {median, min, max}. Shapes: values not empty.
Json spread_json(std::vector<double> values);

/// What every measurement file says first. Keys: schema, program, version, revision (of git), date (UTC), command,
/// machine {cpu, cores, memory_bytes, and nvidia_driver if there is one}. The schema grows when a reader of the old
/// layout would misread the new one; new keys alone do not count.
Json measurement_head(const std::string& program, const std::vector<std::string>& command);

}  // namespace spmm::tools
