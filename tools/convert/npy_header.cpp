#include "tools/convert/npy_header.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr const char* kCreateAgain = "create the file again with numpy.save";

/// Reads the dictionary of the head, a Python literal of a fixed form.
class Dictionary {
 public:
  Dictionary(std::string_view source, const std::string& name) : rest_(source), name_(name) {}

  void read(NpyHeader& header) {
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !has_descr) {
        read_descr(header);
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.shape = tuple();
        has_shape = true;
      } else {
        refuse();
      }
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip_blanks();
    if (!rest_.empty() || !has_descr || !has_order || !has_shape) refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    throw FormatError(name_, text("the head of the array cannot be read near \"", rest_.substr(0, 20), "\""),
                      kCreateAgain);
  }

  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_blanks();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) refuse();
  }
  bool accept_word(std::string_view word) {
    skip_blanks();
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string quoted() {
    const char mark = accept('\'') ? '\'' : '"';
    if (mark == '"') expect('"');
    const std::size_t end = rest_.find(mark);
    if (end == std::string_view::npos) refuse();
    std::string word(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return word;
  }
  bool boolean() {
    if (accept_word("True")) return true;
    if (!accept_word("False")) refuse();
    return false;
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> sizes;
    expect('(');
    while (!accept(')')) {
      skip_blanks();
      std::uint64_t size = 0;
      const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc{}) refuse();
      rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
      sizes.push_back(size);
      if (accept(',')) continue;
      expect(')');
      break;
    }
    return sizes;
  }

  void read_descr(NpyHeader& header) {
    skip_blanks();
    if (!rest_.empty() && rest_[0] == '[') {
      throw FormatError(name_, "the elements are structures, expected numbers", "save one field of them");
    }
    const std::string descr = quoted();
    const auto unknown = [&](const char* what, const char* hint) {
      throw FormatError(name_, text("the elements are ", what, " (dtype ", descr, "), expected integers or floats"),
                        hint);
    };
    constexpr std::string_view kOrders = "<>|=";
    const std::size_t at = !descr.empty() && kOrders.find(descr[0]) != std::string_view::npos ? 1 : 0;
    header.big_endian = at == 1 && descr[0] == '>';
    const char kind = at < descr.size() ? descr[at] : '?';
    const char* const end = descr.data() + descr.size();
    const auto [stop, error] = std::from_chars(std::min(descr.data() + at + 1, end), end, header.item_bytes);
    if (kind == 'c') unknown("complex", "take the real part, if that is meant");
    if (kind == 'O') unknown("Python objects", "convert the array to a dtype of numbers");
    const std::optional<NpyKind> known = kind_of(kind, header.item_bytes);
    if (error != std::errc{} || stop != end || !known) unknown("of a type that is not read", "convert it with astype");
    header.kind = *known;
  }

  static std::optional<NpyKind> kind_of(char kind, std::uint32_t bytes) {
    const bool is_size = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    if (kind == 'b' && bytes == 1) return NpyKind::boolean;
    if (kind == 'i' && is_size) return NpyKind::signed_integer;
    if (kind == 'u' && is_size) return NpyKind::unsigned_integer;
    if (kind == 'f' && is_size && bytes > 1) return NpyKind::real;
    if (kind == 'S' && bytes < 256) return NpyKind::bytes;
    if (kind == 'U' && bytes < 256) return NpyKind::text;
    return std::nullopt;
  }

  std::string_view rest_;
  const std::string& name_;
};

std::uint64_t checked_bytes(const NpyHeader& header, const std::string& name) {
  std::uint64_t bytes = header.kind == NpyKind::text ? header.item_bytes * 4 : header.item_bytes;
  for (const std::uint64_t size : header.shape) {
    if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes)) {
      throw FormatError(name, "the shape of the array passes 2^64 bytes", kCreateAgain);
    }
    if (size == 0) return 0;
  }
  return bytes;
}

}  // namespace

std::uint64_t NpyHeader::num_items() const {
  std::uint64_t items = 1;
  for (const std::uint64_t size : shape) items *= size;
  return items;
}

NpyHeader read_npy_header(ByteInput& input) {
  constexpr std::size_t kMaxHead = std::size_t{1} << 16;
  std::array<unsigned char, 12> head{};
  const auto read = [&](std::size_t begin, std::size_t count) {
    input.read_exactly(std::as_writable_bytes(std::span(head).subspan(begin, count)));
  };
  read(0, 10);
  if (std::memcmp(head.data(), kMagic.data(), kMagic.size()) != 0) {
    throw FormatError(input.name(), "does not begin with \\x93NUMPY, expected a NumPy array", kCreateAgain);
  }
  const unsigned version = head[6];
  if (version < 1 || version > 3) {
    throw FormatError(input.name(), text("has version ", version, " of the .npy format, expected 1 to 3"),
                      kCreateAgain);
  }
  std::size_t length = head[8] + 256u * head[9];
  std::size_t begin = 10;
  if (version > 1) {
    read(10, 2);
    length += (std::size_t{head[10]} << 16) + (std::size_t{head[11]} << 24);
    begin = 12;
  }
  if (length > kMaxHead) {
    throw FormatError(input.name(), text("the head of the array has ", length, " bytes, expected at most ", kMaxHead),
                      kCreateAgain);
  }
  std::string source(length, '\0');
  input.read_exactly(std::as_writable_bytes(std::span(source)));
  NpyHeader header;
  Dictionary(source, input.name()).read(header);
  const std::uint64_t expected = checked_bytes(header, input.name());
  const std::uint64_t found = input.size() - begin - length;
  if (found == expected) return header;
  throw FormatError(input.name(), text(found, " bytes follow the head, expected ", expected, " for its shape"),
                    "create or copy the file again: it is cut off, or more was written behind it");
}

std::string make_npy_header(const std::string& descr, const std::vector<std::uint64_t>& shape) {
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kPrefix = 10;
  std::string sizes;
  for (const std::uint64_t size : shape) sizes += text(sizes.empty() ? "" : " ", size, ",");
  if (shape.size() > 1) sizes.pop_back();
  std::string head = text("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", sizes, "), }");
  head.append((kAlignment - (kPrefix + head.size() + 1) % kAlignment) % kAlignment, ' ');
  head += '\n';
  const std::string length = {static_cast<char>(head.size() & 0xFF), static_cast<char>(head.size() >> 8)};
  return std::string(kMagic) + std::string("\1\0", 2) + length + head;
}

}  // namespace spmm::tools
