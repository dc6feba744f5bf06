// JSON values of the programs: they build, read and write them with nlohmann-json, which this header only names.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace spmm::tools {

using Json = nlohmann::ordered_json;

/// Two blanks for each level. File names need not be UTF-8; what is not becomes U+FFFD.
std::string json_text(const Json& json);

/// As cli::write_json_text().
void write_json(const std::string& path, const Json& json);

}  // namespace spmm::tools
