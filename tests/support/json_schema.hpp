// Checks JSON against the schemas of data/schemas.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace spmm::test {

/// What of a JSON value breaks a schema, one line each with the path of the place: "/plan/threads: is no integer".
/// Stricter than JSON Schema: a key is a problem if the schema names others, but not this one.
/// Values: the keywords $ref (to $defs), anyOf, type, const, enum, minimum, properties, required, additionalProperties
/// and items; any other one that constrains is a problem itself, so that none is believed to be checked.
std::vector<std::string> schema_problems(const nlohmann::json& schema, const nlohmann::json& value);

/// A schema of data/schemas by its name ("report").
nlohmann::json read_schema(const std::string& name);

/// Parses a report. Errors: std::runtime_error with what breaks the schema.
nlohmann::json parse_report(const std::string& schema, const std::string& text);

}  // namespace spmm::test
