// Building messages.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace spmm {

/// A part of a text: words, a character, or a number as streams print it. Refers to words; must not outlive them.
class TextPart {
 public:
  TextPart(std::string_view words) : words_(words) {}
  TextPart(const std::string& words) : words_(words) {}
  TextPart(const char* words) : words_(words) {}
  TextPart(char letter) : digits_{letter}, num_digits_(1) {}
  TextPart(double value);
  template <std::signed_integral T>
  TextPart(T value) {
    set(static_cast<std::uint64_t>(value), value < 0);
  }
  template <std::unsigned_integral T>
  TextPart(T value) {
    set(value, false);
  }

  [[nodiscard]] std::string_view view() const {
    return num_digits_ == 0 ? words_ : std::string_view(digits_.data(), num_digits_);
  }

 private:
  void set(std::uint64_t value, bool is_negative);

  std::string_view words_{};
  std::array<char, 24> digits_;
  std::size_t num_digits_ = 0;
};

std::string joined_text(std::initializer_list<TextPart> parts);

/// Concatenates its arguments. Errors: std::bad_alloc.
template <class... Parts>
std::string text(const Parts&... parts) {
  return joined_text({TextPart(parts)...});
}

/// Bytes of the UTF-8 sequence that the text begins with; 0 if it begins with none. Shapes: text not empty.
std::size_t utf8_length(std::string_view text);

/// Whether the text begins with a control character: C0, DEL, or C1 (U+0080 to U+009F). Shapes: text not empty.
bool begins_with_control(std::string_view text);

/// What a terminal may show of a name, or of a message with names: control characters and bytes that are not UTF-8
/// become \xNN. All programs print names by it.
std::string printable(std::string_view text);

/// 1.5 GB, 300 MB, 12 B: decimal units, at most four significant digits.
std::string human_bytes(std::uint64_t bytes);

/// "1.2 G", "300 M", "12 ": a decimal prefix for the unit that follows, at most four significant digits. From 0 up.
std::string human_number(double value);

}  // namespace spmm
