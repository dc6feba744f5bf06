// The JSON that the library itself reads: the index of a result in parts. Programs use nlohmann-json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spmm::io {

/// One value. Objects keep the order of their members.
struct JsonValue {
  enum class Kind : std::uint8_t { number, string, array, object };
  Kind kind = Kind::number;
  std::uint64_t number = 0;
  std::string string{};
  std::vector<JsonValue> items{};    ///< of an array, or the values of an object
  std::vector<std::string> names{};  ///< of an object's values

  /// A member of an object; null where there is none.
  [[nodiscard]] const JsonValue* find(std::string_view name) const;
};

/// Parses a whole text of whole numbers below 2^64, strings without escapes, arrays and objects.
/// Returns nothing where the text is anything else.
std::optional<JsonValue> parse_json(std::string_view text);

}  // namespace spmm::io
