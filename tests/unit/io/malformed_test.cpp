// Files that break the format: each is refused with its class, place, found, expected and hint.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

struct Malformed {
  const char* name;
  std::string bytes;
  std::vector<std::string> parts;  ///< of the message
  ElementType type = ElementType::u16;
  bool header_shows_it = true;  ///< read_header() refuses it too
};

std::string repeat(const std::string& bytes, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += bytes;
  return all;
}

constexpr std::uint32_t kMax = 0xFFFFFFFFu;
constexpr ElementType u16 = ElementType::u16;
constexpr ElementType u32 = ElementType::u32;

std::vector<Malformed> bad_headers() {
  return {
      {"empty file", "", {"byte offset 0", "0 bytes", "12 bytes"}},
      {"one byte", "\x01", {"1 bytes", "12 bytes"}},
      {"eleven bytes", header_bytes(8, 4, 0).substr(0, 11), {"byte offset 11", "11 bytes", "12 bytes"}},
      {"m = 0", header_bytes(8, 0, 0), {"byte offset 4", "m is 0", "1 to 64"}},
      {"all zero", header_bytes(0, 0, 0), {"byte offset 4", "m is 0"}},
      {"m = 65", header_bytes(65, 65, 0), {"byte offset 4", "m is 65", "1 to 64"}},
      {"m = 256", header_bytes(256, 256, 1), {"m is 256", "1 to 64"}},
      {"m largest", header_bytes(kMax, kMax, 1), {"m is 4294967295", "1 to 64"}},
      {"big-endian header", header_bytes(0x08000000, 0x04000000, 0x01000000), {"m is 67108864", "little-endian"}},
      {"n = 0", header_bytes(0, 4, 0), {"byte offset 0", "n is 0", "multiple of m = 4"}},
      {"n not a multiple", header_bytes(9, 4, 0), {"byte offset 0", "n is 9", "multiple of m = 4", "pad"}},
      {"n below m", header_bytes(3, 4, 0), {"n is 3", "multiple of m = 4"}},
      {"n largest, odd", header_bytes(kMax, 2, 0), {"n is 4294967295", "multiple of m = 2"}},
      {"n = 1, m = 64", header_bytes(1, 64, 0), {"n is 1", "multiple of m = 64"}},
      {"k above 1", header_bytes(4, 4, 2), {"byte offset 8", "blocks is 2", "at most 1"}},
      {"k above 4", header_bytes(8, 4, 5) + repeat(record16(4, 0, 0), 5), {"byte offset 8", "is 5", "at most 4"}},
      {"k largest", header_bytes(4, 2, kMax), {"byte offset 8", "is 4294967295", "at most 4"}},
      {"k just above 2^32 - 2^17 + 1", header_bytes(65535, 1, 4294836226u), {"is 4294836226", "at most 4294836225"}},
      {"k above 1 for m = 64", header_bytes(64, 64, 2), {"byte offset 8", "at most 1"}},
      {"text instead of a matrix", "n,m,k\n8,4,1\n0,0\n", {"is a text file", "Matrix Market"}},
      {"less text than a header", "1 2\n", {"is a text file", "Matrix Market"}},
  };
}

std::vector<Malformed> bad_lengths() {
  const std::string one = record16(4, 0, 0);
  return {
      {"no record", header_bytes(8, 4, 1), {"record 0 (byte offset 12)", "expected 52 bytes"}},
      {"one of two records", header_bytes(8, 4, 2) + one, {"record 1 (byte offset 52)", "expected 92 bytes"}},
      {"last byte missing", header_bytes(8, 4, 1) + one.substr(0, 39), {"ends at byte offset 51", "expected 52"}},
      {"half an index", header_bytes(8, 4, 2) + one + one.substr(0, 4), {"record 1 (byte", "ends at byte offset 56"}},
      {"4e9 records claimed", header_bytes(1u << 20, 8, 4000000000u), {"record 0 ", "expected 544000000012 bytes"}},
      {"2^32 - 1 records claimed", header_bytes(65536, 1, kMax), {"record 0 ", "expected 42949672962 bytes"}},
      {"largest file claimed", header_bytes(kMax - 63, 64, kMax), {"expected 35218731819012 bytes"}},
      {"one byte more", header_bytes(8, 4, 1) + one + "x", {"byte offset 52: 1 bytes too many", "expected 52"}},
      {"one record more", header_bytes(8, 4, 1) + one + one, {"byte offset 52: 40 bytes too many", "1 records"}},
      {"no records, one byte more", header_bytes(8, 4, 0) + "x", {"byte offset 12: 1 bytes too many"}},
      {"no records, one stored", header_bytes(8, 4, 0) + one, {"byte offset 12: 40 bytes too many"}},
      {"a result as operand",
       header_bytes(8, 4, 1) + record32(4, 0, 0),
       {"byte offset 12", "32 bits, a result", "spmm-convert"}},
      {"an operand as result", header_bytes(8, 4, 1) + one, {"16 bits", "72 bytes", "not an input"}, u32},
      {"result cut off", header_bytes(2, 1, 2) + record32(1, 0, 0), {"record 1 (byte offset 24)", "36 bytes"}, u32},
      {"result too long", header_bytes(1, 1, 1) + record32(1, 0, 0) + "ab", {"offset 24: 2 bytes too many"}, u32},
  };
}

std::vector<Malformed> bad_records() {
  const auto two = [](const std::string& a, const std::string& b) { return header_bytes(8, 4, 2) + a + b; };
  const std::string ok = record16(4, 0, 1);
  return {
      {"i = nb", two(ok, record16(4, 2, 0)), {"record 1 (byte offset 52)", "(2, 0)", "0 to 1"}, u16, false},
      {"j = nb", two(record16(4, 0, 2), ok), {"record 0 (byte offset 12)", "(0, 2)", "0 to 1"}, u16, false},
      {"i largest", two(ok, record16(4, kMax, 0)), {"record 1 ", "(4294967295, 0)"}, u16, false},
      {"j largest", two(ok, record16(4, 0, kMax)), {"record 1 ", "(0, 4294967295)"}, u16, false},
      {"element instead of block index", two(ok, record16(4, 4, 4)), {"(4, 4)", "not elements"}, u16, false},
      {"m = 64, i = 1", header_bytes(64, 64, 1) + record16(64, 1, 0), {"record 0 ", "0 to 0"}, u16, false},
      {"m = 1, j = 1", header_bytes(1, 1, 1) + record16(1, 0, 1), {"record 0 (byte offset 12)", "(0, 1)"}, u16, false},
      {"index of a result", header_bytes(2, 1, 1) + record32(1, 2, 0), {"record 0 ", "0 to 1"}, u32, false},
      {"twice in a row", two(ok, ok), {"record 1 (byte offset 52)", "record 0 (byte offset 12)", "(0, 1)"}, u16, false},
      {"first and last",
       header_bytes(6, 2, 4) + record16(2, 2, 1) + record16(2, 0, 0) + record16(2, 1, 1) + record16(2, 2, 1),
       {"record 3 (byte offset 60)", "record 0 (byte offset 12)", "(2, 1)"},
       u16,
       false},
      {"three times",
       header_bytes(3, 1, 4) + record16(1, 2, 2) + repeat(record16(1, 1, 0), 3),
       {"record 2 (byte offset 32)", "record 1 (byte offset 22)", "(1, 0)"},
       u16,
       false},
      {"two pairs, the smaller index is named",
       header_bytes(2, 1, 4) + repeat(record16(1, 1, 1) + record16(1, 0, 1), 2),
       {"record 3 ", "record 1 ", "(0, 1)"},
       u16,
       false},
      {"zero blocks twice",
       header_bytes(2, 1, 2) + repeat(packed(1u, 0u, std::uint16_t{0}), 2),
       {"record 1 ", "record 0 ", "(1, 0)"},
       u16,
       false},
      {"result block twice",
       header_bytes(2, 1, 2) + repeat(record32(1, 1, 1), 2),
       {"record 1 (byte offset 24)", "record 0 ", "(1, 1)"},
       u32,
       false},
      {"out of range twice: the range is named first",
       two(record16(4, 9, 9), record16(4, 9, 9)),
       {"record 0 ", "out of range"},
       u16,
       false},
  };
}

void check_refused(const Malformed& bad) {
  INFO(bad.name);
  const TemporaryFolder folder;
  const auto path = folder / "bad.bin";
  write_bytes(path, bad.bytes);
  const auto read = [&] { bad.type == u16 ? (void)read_matrix(path) : (void)read_product(path); };
  const std::string message = message_of<FormatError>(read);
  INFO(message);
  CHECK(names_place_and_hint(message, path));
  for (const std::string& part : bad.parts) {
    INFO(part);
    CHECK(has(message, part));
  }
  if (bad.header_shows_it) {
    CHECK(message_of<FormatError>([&] { read_header(path, bad.type); }) == message);
    if (bad.type == u16) CHECK(message_of<FormatError>([&] { open_file_source(path); }) == message);
  } else {
    CHECK_NOTHROW(read_header(path, bad.type));
  }
}

TEST_CASE("malformed headers, lengths and records are refused") {
  std::size_t cases = 0;
  for (const auto& table : {bad_headers(), bad_lengths(), bad_records()}) {
    for (const Malformed& bad : table) check_refused(bad);
    cases += table.size();
  }
  CHECK(cases >= 40);
}

TEST_CASE("a file cut off or extended at any byte is refused") {
  const TemporaryFolder folder;
  const auto path = folder / "cut.bin";
  const std::string operand = header_bytes(6, 2, 3) + record16(2, 0, 1) + record16(2, 2, 0) + record16(2, 1, 1);
  const std::string result = header_bytes(3, 1, 2) + record32(1, 0, 1) + record32(1, 2, 0);
  const std::string extra = "xy";
  for (const ElementType type : {u16, u32}) {
    const std::string whole = type == u16 ? operand : result;
    for (std::size_t length = 0; length <= whole.size() + extra.size(); ++length) {
      write_bytes(path, (whole + extra).substr(0, length));
      const auto read = [&] { type == u16 ? (void)read_matrix(path) : (void)read_product(path); };
      INFO("length " << length);
      if (length == whole.size()) {
        CHECK_NOTHROW(read());
        CHECK(read_header(path, type).num_blocks == (type == u16 ? 3 : 2));
        continue;
      }
      const std::string message = message_of<FormatError>(read);
      CHECK(names_place_and_hint(message, path));
      const bool says_where = has(message, "byte offset " + std::to_string(std::min(length, whole.size())));
      const bool says_other_type = has(message, "has " + std::to_string(length) + " bytes, which fits");
      CHECK((says_where || says_other_type));
      CHECK(message_of<FormatError>([&] { read_header(path, type); }) == message);
      if (type == u16) CHECK(message_of<FormatError>([&] { open_file_source(path); }) == message);
    }
  }
}

TEST_CASE("what cannot be opened as a file is refused") {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "x");
  std::filesystem::create_directory(folder / "folder");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink("loop", folder / "loop");
  const int socket_fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(socket_fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  ::close(socket_fd);

  const std::vector<std::pair<std::filesystem::path, std::string>> cases = {
      {folder / "missing", "No such file"},       {folder / "missing/file", "No such file"},
      {folder / "file/below", "Not a directory"}, {folder / "folder", "is a directory"},
      {folder / "pipe", "is a pipe (FIFO)"},      {folder / "socket", "is a socket"},
      {folder / "loop", "symbolic links"},        {folder / std::string(300, 'x'), "too long"},
      {"/dev/null", "is a character device"},     {"", "No such file"},
  };
  for (const auto& [path, part] : cases) {
    INFO(path);
    const std::string message = message_of<InputError>([&, p = path] { read_matrix(p); });
    INFO(message);
    CHECK(names_place_and_hint(message, path));
    CHECK(has(message, part));
    CHECK(has(message, "expected a re"));  // "a regular file" or "a readable matrix file"
    CHECK(message_of<InputError>([&, p = path] { open_file_source(p); }) == message);
    CHECK(message_of<InputError>([&, p = path] { read_header(p); }) == message);
  }
}

TEST_CASE("a file without read permission is refused") {
  const TemporaryFolder folder;
  const auto path = folder / "secret.bin";
  write_bytes(path, header_bytes(4, 4, 0));
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const std::string message = in_child([&] {
    drop_rights();
    return message_of<InputError>([&] { read_header(path); });
  });
  INFO(message);
  CHECK(names_place_and_hint(message, path));
  CHECK(has(message, "Permission denied"));
  CHECK(has(message, "chmod"));
}

TEST_CASE("headers are checked against themselves") {
  CHECK_NOTHROW(validate_header({.n = 1, .m = 1, .num_blocks = 0}, "x"));
  CHECK_NOTHROW(validate_header({.n = kMax - 63, .m = 64, .num_blocks = kMax}, "x"));
  CHECK_NOTHROW(validate_header({.n = 65535, .m = 1, .num_blocks = 4294836225u}, "x"));
  CHECK_NOTHROW(validate_header({.n = 64, .m = 64, .num_blocks = 1}, "x"));
  CHECK(has(message_of<FormatError>([] { validate_header({.n = 4, .m = 0, .num_blocks = 0}, "A"); }), "A, byte"));
}

}  // namespace
