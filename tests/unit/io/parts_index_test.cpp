// The index of a result in parts, and the checksums in it.
#include "io/formats/parts_index.hpp"

#include <random>

#include "io/formats/crc32.hpp"
#include "io/formats/format.hpp"
#include "io/formats/json_text.hpp"
#include "io/parts/files.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

std::uint32_t crc_of(const std::string& bytes) {
  return io::crc32(0, std::as_bytes(std::span(bytes)));
}

/// By the definition, bit by bit.
std::uint32_t slow_crc(const std::string& bytes) {
  std::uint32_t rest = ~0u;
  for (const char letter : bytes) {
    rest ^= static_cast<unsigned char>(letter);
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? 0xEDB88320u : 0);
  }
  return ~rest;
}

TEST_CASE("CRC-32 is that of zlib, at once, in pieces and combined") {
  CHECK(crc_of("") == 0);
  CHECK(crc_of("123456789") == 0xCBF43926u);
  std::mt19937 random(3);
  for (const std::size_t size : {1u,   7u,   8u,   63u,  64u,  65u,  79u,  80u,  127u,  128u,  129u,
                                 255u, 256u, 257u, 319u, 320u, 511u, 512u, 527u, 1000u, 4096u, 70'001u}) {
    std::string bytes(size, '\0');
    for (char& letter : bytes) letter = static_cast<char>(random());
    INFO(size);
    const std::uint32_t expected = slow_crc(bytes);
    CHECK(crc_of(bytes) == expected);
    CHECK(io::crc32_portable(0, std::as_bytes(std::span(bytes))) == expected);
    const std::size_t half = random() % size;
    const std::uint32_t first = crc_of(bytes.substr(0, half));
    CHECK(io::crc32(first, std::as_bytes(std::span(bytes)).subspan(half)) == expected);
    CHECK(io::combine_crc32(first, crc_of(bytes.substr(half)), size - half) == expected);
  }
  CHECK(io::combine_crc32(5, 7, 0) == (5 ^ 7));
}

TEST_CASE("the checksum of a part is that of its file, in whatever order its records are written") {
  const MatrixHeader header{.n = 40, .m = 4, .num_blocks = 3};
  const std::string records = "the bytes of some records, in three pieces";
  const io::HeaderBytes head = io::encode_header(header);
  const std::string file = std::string(reinterpret_cast<const char*>(head.data()), head.size()) + records;
  io::PiecewiseCrc crc;
  for (const auto& [begin, size] : {std::pair{9u, 20u}, {29u, 13u}, {0u, 9u}}) {
    crc.add(kHeaderBytes + begin, size, crc_of(records.substr(begin, size)));
  }
  CHECK(crc.with_header(header) == crc_of(file));
}

io::PartsIndex example() {
  return {
      .n = 40,
      .m = 4,
      .num_blocks = 5,
      .parts = {{.file = "part-000.bin", .row_begin = 0, .row_end = 3, .num_blocks = 2, .bytes = 156, .crc32 = 0xAB},
                {.file = "part-001.bin", .row_begin = 3, .row_end = 3, .num_blocks = 0, .bytes = 12, .crc32 = 0},
                {.file = "part-002.bin", .row_begin = 3, .row_end = 10, .num_blocks = 3, .bytes = 228, .crc32 = ~0u}}};
}

TEST_CASE("an index that was written is read again") {
  const io::PartsIndex read = io::parse_index(io::index_text(example()), "index");
  CHECK(read.n == 40);
  CHECK(read.m == 4);
  CHECK(read.num_blocks == 5);
  CHECK((read.parts == example().parts));
  io::PartsIndex large = example();  // of the whole: more than a header can name
  large.parts[0].num_blocks = large.parts[2].num_blocks = 0xFFFF'FFFFu;
  large.parts[0].bytes = large.parts[2].bytes = 12 + 0xFFFF'FFFFull * 72;
  large.num_blocks = 2 * 0xFFFF'FFFFull;
  CHECK(io::parse_index(io::index_text(large), "index").num_blocks == 8589934590u);
}

TEST_CASE("an index that contradicts itself is refused") {
  const auto refused = [](const std::string& from, const std::string& to) {
    std::string text = io::index_text(example());
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const std::string message = message_of<FormatError>([&] { io::parse_index(text, "c/index.json"); });
    INFO(message);
    CHECK(names_place_and_hint(message, "c/index.json"));
  };
  refused("\"schema\": 1", "\"schema\": 2");
  refused("\"m\": 4", "\"m\": 3");
  refused("\"m\": 4", "\"m\": 0");
  refused("\"n\": 40", "\"n\": 44");
  refused("\"n\": 40", "\"n\": 4294967296");
  refused("\"blocks\": 5", "\"blocks\": 6");
  refused("\"bytes\": 372", "\"bytes\": 371");
  refused("\"bytes\": 372,", "");
  refused("part-000.bin", "part-001.bin");
  refused("part-002.bin", "../a.bin");
  refused("\"row_begin\": 3", "\"row_begin\": 4");
  refused("\"row_end\": 3", "\"row_end\": 4");
  refused("\"bytes\": 12,", "\"bytes\": 13,");
  refused("\"000000ab\"", "\"ab\"");
  refused("\"000000ab\"", "\"000000ax\"");
  refused("\"000000ab\"", "171");
  refused("\"parts\"", "\"pieces\"");
  refused("]", "");
  refused("{", "[");
}

TEST_CASE("the JSON of the library is a subset, and nothing else passes") {
  const std::string text = " { \"a\" : [1, 2, {\"b\": \"x\"}], \"c\": 18446744073709551615, \"d\": [] }\n";
  io::JsonReader json(text);
  std::string seen;
  std::uint64_t c = 0;
  CHECK(json.object([&](std::string_view name) {
    seen += name;
    return name == "c" ? json.number(c) : json.array([&] {
      seen += json.next();
      return json.skip();
    });
  }));
  CHECK(seen == "a12{cd");
  CHECK(c == 18446744073709551615u);
  CHECK(json.next() == '\0');
  for (const std::string bad : {"", "{", "{}x", "[1,]", "{\"a\"}", "{\"a\": }", "\"a", "-1", "1.5",
                                "18446744073709551616", "\"a\\n\"", "nul", "\"a\\", "\"a\n", "[[[[[[[[[[1]]]]]]]]]]"}) {
    INFO(bad);
    io::JsonReader reader(bad);
    CHECK_FALSE((reader.skip() && reader.next() == '\0'));
  }
}

TEST_CASE("only names of our own are removed from what a killed run has left") {
  for (const std::string name : {"index.json", "part-000.bin", "part-1234.bin", ".part-000.bin.spmm-Ab12Zz.tmp",
                                 ".index.json.spmm-Ab12Zz.tmp"}) {
    CHECK(io::is_part_file_name(name));
  }
  for (const std::string name : {"", "part-.bin", "part-0.bin.bak", "part-0x.bin", "notes.txt", "index.json.bak",
                                 ".c.bin.spmm-Ab12Zz.tmp", "a/part-000.bin"}) {
    CHECK_FALSE(io::is_part_file_name(name));
  }
}

}  // namespace
