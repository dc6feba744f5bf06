// index.json of a result in parts, written, read and checked.
#include "io/formats/parts_index.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "io/formats/json_text.hpp"
#include "io/system/descriptor.hpp"
#include "io/system/retried.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm::io {
namespace {

constexpr std::uint64_t kSchema = 1;
constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMaxIndexBytes = 8u << 20;  // about 60,000 parts

std::string hex_text(std::uint32_t value) {
  std::array<char, 9> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x", static_cast<unsigned>(value));
  return digits.data();
}

/// The members of one object that an index has; the first one that is missing or wrong ends the reading.
class Members {
 public:
  Members(const std::string& name, std::string where, std::span<const char* const> numbers,
          std::span<const char* const> strings = {})
      : name_(name), where_(std::move(where)) {
    for (const char* member : numbers) numbers_.push_back({.name = member});
    for (const char* member : strings) strings_.push_back({.name = member});
  }

  /// Reads the value of a member. Another type, or a member of another name, is passed over.
  bool read(JsonReader& json, std::string_view member) {
    const char first = json.next();
    for (auto& number : numbers_) {
      if (number.name == member && first >= '0' && first <= '9') return number.is_there = json.number(number.value);
    }
    for (auto& string : strings_) {
      if (string.name == member && first == '"') return string.is_there = json.string(string.value);
    }
    return json.skip();
  }

  /// Whether a number has been read.
  [[nodiscard]] bool has(std::string_view member) const {
    return std::any_of(numbers_.begin(), numbers_.end(), [&](const auto& n) { return n.name == member && n.is_there; });
  }

  [[nodiscard]] std::uint64_t number(const char* member, std::uint64_t most = kMost32) const {
    const std::uint64_t value = get(numbers_, member);
    if (value > most) refuse(text("\"", member, "\" is ", value, ", expected at most ", most));
    return value;
  }
  [[nodiscard]] std::uint32_t number32(const char* member) const { return static_cast<std::uint32_t>(number(member)); }
  [[nodiscard]] std::string_view string(const char* member) const { return get(strings_, member); }
  void expect(bool is_right, const char* member, const std::string& expected) const {
    if (!is_right) refuse(text("\"", member, "\" is wrong, expected ", expected));
  }
  /// Errors: always FormatError.
  [[noreturn]] void refuse(const std::string& problem) const {
    throw FormatError(name_, where_ + problem,
                      "write the folder anew (ProductOptions::num_parts): its parts are not described");
  }

 private:
  template <class T>
  struct Member {
    std::string_view name;
    T value{};
    bool is_there = false;
  };

  template <class T>
  [[nodiscard]] T get(const std::vector<Member<T>>& members, std::string_view name) const {
    for (const auto& member : members) {
      if (member.name == name && member.is_there) return member.value;
    }
    refuse(text("\"", name, "\" is missing or of another type"));
  }

  const std::string& name_;
  std::string where_;
  std::vector<Member<std::uint64_t>> numbers_;
  std::vector<Member<std::string_view>> strings_;
};

constexpr std::array kIndexNumbers = {"schema", "n", "m", "blocks", "bytes"};
constexpr std::array kPartNumbers = {"row_begin", "row_end", "blocks", "bytes"};
constexpr std::array kPartStrings = {"file", "crc32"};
constexpr std::uint64_t kMost64 = std::numeric_limits<std::uint64_t>::max();

/// A part as far as it can be checked alone: a text is refused before much of it is kept.
ResultPart read_part(const Members& members, std::uint32_t number) {
  ResultPart part{.file = part_name(number),
                  .row_begin = members.number32("row_begin"),
                  .row_end = members.number32("row_end"),
                  .num_blocks = members.number32("blocks"),
                  .bytes = members.number("bytes", kMost64)};
  members.expect(part.file == members.string("file"), "file", part.file);
  const std::string_view crc = members.string("crc32");
  const auto [end, error] = std::from_chars(crc.data(), crc.data() + crc.size(), part.crc32, 16);
  const bool is_hex = error == std::errc() && end == crc.data() + crc.size() && crc.size() == 8;
  members.expect(is_hex, "crc32", "8 hexadecimal digits");
  return part;
}

void check_part(const Members& members, const ResultPart& part, std::uint32_t row_begin, std::uint32_t m) {
  members.expect(part.row_begin == row_begin, "row_begin", text(row_begin));
  members.expect(part.row_end >= row_begin, "row_end", text("at least ", row_begin));
  const std::uint64_t bytes = kHeaderBytes + part.num_blocks * output_record_bytes(m);
  members.expect(part.bytes == bytes, "bytes", text(bytes));
}

/// Bytes of the whole as one file.
std::uint64_t whole_bytes(const PartsIndex& index) {
  return kHeaderBytes + index.num_blocks * output_record_bytes(index.m);
}

}  // namespace

std::string part_name(std::uint32_t number) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "part-%03u.bin", number);
  return name.data();
}

std::vector<std::string> parts_file_names(std::uint32_t num_parts) {
  std::vector<std::string> names;
  for (std::uint32_t x = 0; x < num_parts; ++x) names.push_back(part_name(x));
  names.emplace_back(kIndexName);
  return names;
}

bool is_part_file_name(const std::string& name) {
  constexpr std::string_view kBegin = "part-";
  constexpr std::string_view kEnd = ".bin";
  if (name == kIndexName) return true;
  std::string_view core = name;
  const bool is_temporary = core.starts_with('.') && core.ends_with(".tmp") && core.find(".spmm-") != core.npos;
  if (is_temporary) core = core.substr(1, core.find(".spmm-") - 1);
  if (core == kIndexName) return true;
  if (!core.starts_with(kBegin) || !core.ends_with(kEnd) || core.size() <= kBegin.size() + kEnd.size()) return false;
  core = core.substr(kBegin.size(), core.size() - kBegin.size() - kEnd.size());
  return std::all_of(core.begin(), core.end(), [](char c) { return c >= '0' && c <= '9'; });
}

PartsIndex index_of(const MatrixHeader& header, std::vector<ResultPart> parts) {
  PartsIndex index{.n = header.n, .m = header.m, .parts = std::move(parts)};
  for (const ResultPart& part : index.parts) index.num_blocks += part.num_blocks;
  return index;
}

std::string index_text(const PartsIndex& index) {
  // Strings, not a stream: if there is no memory, a stream would leave a part out and say nothing.
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  std::string json = "{\n  \"schema\": " + number(kSchema) + ",\n  \"n\": " + number(index.n) +
                     ",\n  \"m\": " + number(index.m) + ",\n  \"blocks\": " + number(index.num_blocks) +
                     ",\n  \"bytes\": " + number(whole_bytes(index)) + ",\n  \"parts\": [";
  for (std::size_t x = 0; x < index.parts.size(); ++x) {
    const ResultPart& part = index.parts[x];
    json += (x == 0 ? "\n" : ",\n") + ("    {\"file\": \"" + part.file) +
            "\", \"row_begin\": " + number(part.row_begin) + ", \"row_end\": " + number(part.row_end) +
            ", \"blocks\": " + number(part.num_blocks) + ", \"bytes\": " + number(part.bytes) + ", \"crc32\": \"" +
            hex_text(part.crc32) + "\"}";
  }
  return json + "\n  ]\n}\n";
}

PartsIndex parse_index(const std::string& content, const std::string& name) {
  PartsIndex index;
  Members members(name, "", kIndexNumbers);
  JsonReader json(content);
  bool has_parts = false;
  const auto check_schema = [&] { members.expect(members.number("schema") == kSchema, "schema", text(kSchema)); };
  const auto read_parts = [&] {
    if (members.has("schema")) check_schema();  // of another one the parts may look different
    return json.array([&] {
      const auto number = static_cast<std::uint32_t>(index.parts.size());
      Members of_part(name, text("part ", number, ": "), kPartNumbers, kPartStrings);
      if (!json.object([&](std::string_view member) { return of_part.read(json, member); })) return false;
      index.parts.push_back(read_part(of_part, number));
      return true;
    });
  };
  const auto read_member = [&](std::string_view member) {
    if (member != "parts" || json.next() != '[' || std::exchange(has_parts, true)) return members.read(json, member);
    return read_parts();
  };
  if (!json.object(read_member) || json.next() != '\0') members.refuse("is not the JSON index of a result in parts");
  check_schema();
  index.n = members.number32("n");
  index.m = members.number32("m");
  index.num_blocks = members.number("blocks", kMost64);
  validate_header({.n = index.n, .m = index.m, .num_blocks = 0}, name);
  const std::uint32_t nb = index.n / index.m;
  std::uint64_t num_blocks = 0;
  std::uint32_t row = 0;
  for (std::size_t x = 0; x < index.parts.size(); ++x) {
    check_part(Members(name, text("part ", x, ": "), {}), index.parts[x], row, index.m);
    row = index.parts[x].row_end;
    num_blocks += index.parts[x].num_blocks;
  }
  members.expect(!index.parts.empty() && row == nb, "parts", text("ranges that end at block row ", nb));
  members.expect(num_blocks == index.num_blocks, "blocks", text(num_blocks, ", the sum over the parts"));
  members.expect(members.number("bytes", kMost64) == whole_bytes(index), "bytes", text(whole_bytes(index)));
  return index;
}

PartsIndex read_parts_index(const std::filesystem::path& folder) {
  const std::string name = folder.string();
  const Descriptor fd(retried([&] { return ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (fd.is_open()) return read_index_at(fd.get(), name);
  throw InputError(name, text("cannot open the folder (", error_text(errno), "), expected a folder of parts"),
                   "give the path of a folder that a result in parts was written to");
}

PartsIndex read_index_at(int folder_fd, const std::string& folder_name) {
  const std::string name = folder_name + "/" + kIndexName;
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW;
  const Descriptor fd(retried([&] { return ::openat(folder_fd, kIndexName, kFlags); }));
  struct stat info {};
  if (!fd.is_open() || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    throw FormatError(folder_name, text("is a folder without an index that can be read (", kIndexName, ")"),
                      "give the path of a file, or of a folder that a result in parts was written to");
  }
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  if (bytes > kMaxIndexBytes) {
    throw FormatError(name, text("has ", bytes, " bytes, expected at most ", kMaxIndexBytes),
                      "write the folder anew (ProductOptions::num_parts)");
  }
  std::string content(bytes, '\0');
  std::size_t at = 0;
  while (at < content.size()) {
    const ssize_t got =
        retried([&] { return ::pread(fd.get(), content.data() + at, content.size() - at, static_cast<off_t>(at)); });
    if (got < 0)
      throw IoError(name, text("reading failed (", error_text(errno), ")"), "check the disk, then run again");
    if (got == 0) break;
    at += static_cast<std::size_t>(got);
  }
  content.resize(at);
  return parse_index(content, name);
}

}  // namespace spmm::io
