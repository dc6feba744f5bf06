// JSON values to text and to files.
#include "tools/common/json.hpp"

#include <nlohmann/json.hpp>

#include "report/text.hpp"

namespace spmm::tools {

std::string json_text(const Json& json) {
  return json.dump(2, ' ', true, Json::error_handler_t::replace);
}

void write_json(const std::string& path, const Json& json) {
  cli::write_json_text(path, json_text(json));
}

}  // namespace spmm::tools
