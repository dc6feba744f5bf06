// Building messages.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace spmm {

inline void append(std::string& all, std::string_view words) {
  all += words;
}
inline void append(std::string& all, char letter) {
  all += letter;
}
/// As printf's %g.
void append(std::string& all, double value);
template <std::integral T>
void append(std::string& all, T value) {
  all += std::to_string(value);
}

/// Concatenates words, letters and numbers. Errors: std::bad_alloc.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string all;
  (append(all, parts), ...);
  return all;
}

/// Bytes of the UTF-8 sequence that the text begins with; 0 if it begins with none. Shapes: text not empty.
std::size_t utf8_length(std::string_view text);

/// Whether the text begins with a control character: C0, DEL, or C1 (U+0080 to U+009F). Shapes: text not empty.
bool begins_with_control(std::string_view text);

/// What a terminal may show of a name, or of a message with names: control characters and bytes that are not UTF-8
/// become \xNN. All programs print names by it.
std::string printable(std::string_view text);

/// "1.2 G", "300 M", "12 ": a decimal prefix for the unit that follows, at most four significant digits. From 0 up.
std::string human_number(double value);

/// 1.5 GB, 300 MB, 12 B: decimal units, at most four significant digits.
std::string human_bytes(std::uint64_t bytes);

}  // namespace spmm
