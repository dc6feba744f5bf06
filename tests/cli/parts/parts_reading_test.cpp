// Folders of parts and results that are read again: hostile ones, no output inside them, results as operands.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/exit_codes.hpp"
#include "cli/parts/parts_place.hpp"
#include "io/formats/crc32.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/oracle.hpp"
#include "unit/tools/tool_support.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;

/// Writes a part again, changed, with an index that has its new checksum.
void change_part(const std::string& file, const std::function<void(std::string&)>& change) {
  const std::string before = bytes_of("c/" + file);
  std::string after = before;
  change(after);
  write_bytes("c/" + file, after);
  const auto crc_of = [](const std::string& bytes) {
    std::array<char, 9> digits{};
    std::snprintf(digits.data(), digits.size(), "%08x",
                  static_cast<unsigned>(spmm::io::crc32(0, std::as_bytes(std::span(bytes)))));
    return std::string(digits.data());
  };
  std::string index = bytes_of("c/index.json");
  const std::size_t at = index.find(crc_of(before));
  REQUIRE(at != std::string::npos);
  write_bytes("c/index.json", index.replace(at, 8, crc_of(after)));
}

TEST_CASE("blocks outside the block rows of their part, or out of order, are refused though the checksums fit") {
  const Workplace workplace;
  multiply({"--parts", "2", "a.bin", "b.bin", "c"});
  const std::string first = bytes_of("c/part-000.bin");
  const std::string index = bytes_of("c/index.json");
  const std::uint32_t end = index_of("c")["parts"][0]["row_end"];
  const std::size_t record = spmm::output_record_bytes(4);
  const auto row_at = [&](std::size_t r) { return spmm::kHeaderBytes + r * record; };
  const auto set_row = [&](std::size_t r, std::uint32_t row) {
    return [=](std::string& bytes) { std::memcpy(bytes.data() + row_at(r), &row, sizeof row); };
  };
  const auto refused = [&](const std::function<void(std::string&)>& change, const std::string& why, bool on_opening) {
    change_part("part-000.bin", change);
    for (const Words& words : {Words{"cat", "--check", "c"}, Words{"cat", "c", "d.bin"}, Words{"info", "c"}}) {
      const ProcessResult result = tool("spmm-" + words.front(), {words.begin() + 1, words.end()});
      INFO(result.err);
      if (words.front() == "info" && !on_opening) continue;
      CHECK(result.exit_code == kBadData);
      CHECK(result.err.find("c/part-000.bin, record ") != std::string::npos);
      CHECK(result.err.find(why) != std::string::npos);
    }
    CHECK_FALSE(fs::exists("d.bin"));
    write_bytes("c/part-000.bin", first);
    write_bytes("c/index.json", index);
  };
  const std::size_t last = (first.size() - spmm::kHeaderBytes) / record - 1;
  refused(set_row(last, end), "the index gives the part the block rows 0 to " + std::to_string(end), true);
  refused(set_row(last - 1, end), "lies outside the block rows that the index gives the part, 0 to ", false);
  refused(set_row(last - 1, 16), "expected", false);
  const auto swap_records = [&](std::string& bytes) {
    std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(row_at(1)),
                     bytes.begin() + static_cast<std::ptrdiff_t>(row_at(2)),
                     bytes.begin() + static_cast<std::ptrdiff_t>(row_at(2)));
  };
  refused(swap_records, "expected blocks in the order of (i, j)", false);
  // The ranges of both parts moved against each other.
  const std::string moved = std::to_string(end - 1);
  std::string shifted = index;
  for (const std::string member : {"\"row_end\": ", "\"row_begin\": "}) {
    const std::string was = member + std::to_string(end);
    REQUIRE(shifted.find(was) != std::string::npos);
    shifted.replace(shifted.find(was), was.size(), member + moved);
  }
  write_bytes("c/index.json", shifted);
  for (const std::string program : {"spmm-cat", "spmm-info", "spmm-compare"}) {
    const ProcessResult result = tool(program, {"c", program == "spmm-cat" ? "d.bin" : "c"});
    INFO(program << ": " << result.err);
    CHECK(result.exit_code == (program == "spmm-compare" ? 2 : kBadData));
    CHECK(result.err.find("the index gives the part the block rows 0 to " + moved) != std::string::npos);
  }
}

TEST_CASE("an index of 8 MB takes little more memory than its text") {
  const Workplace workplace;
  multiply({"--parts", "2", "a.bin", "b.bin", "c"});
  const auto reject = [&](const std::string& begin, const std::string& item) {
    std::string text = begin;
    while (text.size() < (8u << 20) - 2 * item.size()) text += item;
    write_bytes("c/index.json", text);
    const ProcessResult result = tool("spmm-cat", {"c", "d.bin"});
    INFO(result.err << result.peak_resident_bytes);
    CHECK(result.exit_code == kBadData);
    CHECK(stayed_below(result, 50'000'000));
  };
  reject("[", "0,");
  reject(R"({"schema": 1, "x": [)", "{},");
  reject(R"({"schema": 1, "parts": [)", "{},");
  reject(R"({"schema": 1, "n": 8, )", R"("":0,)");
}

TEST_CASE("no program writes into a folder of parts that it reads, also through links") {
  const Workplace workplace;
  multiply({"--parts", "2", "a.bin", "b.bin", "c"});
  fs::create_symlink("c/part-000.bin", "part.bin");
  fs::create_symlink("c", "link");
  const auto content = [] {
    return bytes_of("c/part-000.bin") + bytes_of("c/part-001.bin") + bytes_of("c/index.json");
  };
  const std::string before = content();
  const auto refused = [&](const std::string& program, const Words& arguments, const std::string& why) {
    const ProcessResult result = tool(program, arguments);
    INFO(program << " " << arguments.back() << ": " << result.err);
    CHECK(result.exit_code == kUsage);
    CHECK(result.err.find(why) != std::string::npos);
    CHECK((content() == before));
    CHECK(names_in("c").size() == 3);
  };
  const std::string why = "the output lies in the folder of parts ";
  for (const std::string out : {"c/part-000.bin", "c/index.json", "c/new.bin", "link/part-001.bin", "part.bin"}) {
    refused("spmm-cat", {"c", out}, why + "c, which is an input");
    refused("spmm-cat", {"link", out}, why + "link, which is an input");
    refused("spmm-convert", {"--to", "mtx", "c", out}, why);
  }
  refused("spmm-cat", {"c", "link"}, "the output is the same file as the input c");
  write_bytes("x.mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 4\n");
  refused("spmm-convert", {"--like", "c", "x.mtx", "c/part-000.bin"}, why);
  refused("spmm", {"--backend", "cpu", "--parts", "2", "--report", "c/index.json", "a.bin", "b.bin", "c"},
          "--report: c/index.json lies in c");
  refused("spmm", {"--backend", "cpu", "--parts", "2", "--trace", "link/t.json", "a.bin", "b.bin", "c"},
          "--trace: link/t.json lies in c");
  CHECK(tool("spmm-cat", {"-q", "c", "whole.bin"}).exit_code == kOk);
  refused("spmm-cat", {"c", "c.mtx"}, "spmm-convert c.bin c.mtx");
  refused("spmm-gen", {"c.npz", "--n", "8", "--m", "4", "--k", "1"}, "python -m spmm convert c.bin c.npz");
}

TEST_CASE("a result becomes an operand: A A A without a text file, of one file and of parts") {
  const Workplace workplace;
  const spmm::BlockMatrix a = random_matrix(96, 4, 90, 60, 7);  // at most 24 pairs of 4 terms of 3,600 in an element
  spmm::write_matrix("x.bin", a);
  const spmm::ProductMatrix aa = oracle_multiply(a, a);
  const spmm::BlockMatrix narrow{
      .n = aa.n, .m = aa.m, .index = aa.index, .values = {aa.values.begin(), aa.values.end()}};
  REQUIRE(*std::max_element(aa.values.begin(), aa.values.end()) <= 65535);
  multiply({"x.bin", "x.bin", "aa.bin"});
  multiply({"--parts", "3", "x.bin", "x.bin", "pp"});
  for (const std::string result : {"aa.bin", "pp", "pp/"}) {
    const ProcessResult refused = spmm_command({"--backend", "cpu", result, "x.bin", "old.bin"});
    INFO(refused.err);
    CHECK(refused.exit_code == (result == "aa.bin" ? kBadData : kNoInput));
    const std::string narrowed = result == "aa.bin" ? "aa16.bin" : "pp16.bin";
    const std::string words = result == "aa.bin" ? "aa.bin aa16.bin" : "pp pp16.bin";
    CHECK(refused.err.find("make an operand of the result: spmm-convert " + words) != std::string::npos);
    const ProcessResult converted = tool("spmm-convert", {result, narrowed});
    INFO(converted.err);
    REQUIRE(converted.exit_code == kOk);
    CHECK((spmm::read_matrix(narrowed) == narrow));
    multiply({narrowed, "x.bin", "aaa.bin"});
    CHECK((spmm::read_product("aaa.bin") == oracle_multiply(narrow, a)));
  }
  REQUIRE(tool("spmm-convert", {"pp", "t.bin", "--transpose", "--scale", "2"}).exit_code == kOk);
  spmm::BlockMatrix twice = transposed(narrow);
  for (std::uint16_t& value : twice.values) value = static_cast<std::uint16_t>(2 * value);
  spmm::write_matrix("twice.bin", twice);
  CHECK(tool("spmm-compare", {"--any-order", "t.bin", "twice.bin"}).exit_code == kOk);
}

TEST_CASE("an element of a result that is no element of an operand is named, or cut when asked for") {
  const Workplace workplace;
  spmm::write_product("wide.bin",
                      {.n = 8, .m = 2, .index = {{0, 0}, {1, 3}}, .values = {1, 0, 65535, 2, 0, 9, 65536, 70000}});
  const auto fails = [](const Words& arguments, int code, const std::string& why) {
    const ProcessResult result = tool("spmm-convert", arguments);
    INFO(result.err);
    CHECK(result.exit_code == code);
    CHECK(result.err.find(why) != std::string::npos);
    CHECK_FALSE(fs::exists("o.bin"));
  };
  fails({"wide.bin", "o.bin"}, kBadData,
        "wide.bin: the element at row 3, column 6 (counted from 0) is 65536, which is above 65535; expected a whole "
        "number "
        "from 0 to 65535; give --on-overflow saturate");
  fails({"wide.bin", "o.bin", "--transpose"}, kBadData, "the element at row 3, column 6 (counted from 0) is 65536");
  fails({"wide.bin", "o.bin", "--scale", "1/2"}, kBadData,
        "row 0, column 0 (counted from 0) is 1, times 0.5, which is not");
  fails({"wide.bin", "o.bin", "--block", "4"}, kUsage, "--block: is not for a .bin made of a .bin");
  fails({"wide.bin", "o.bin", "--like", "a.bin"}, kUsage, "--like: is not for a .bin made of a .bin");
  fails({"wide.bin", "o.bin", "--shape", "4x4"}, kUsage, "--shape: is only for other formats");
  fails({"wide.bin", "wide.bin"}, kUsage, "the output is the same file as the input");
  const ProcessResult cut = tool("spmm-convert", {"wide.bin", "o.bin", "--on-overflow", "saturate"});
  CHECK(cut.out.find("o.bin: n 8, m 2, 2 blocks with elements of 16 bits, 44 B; 2 cut to 65535, in ") == 0);
  CHECK((spmm::read_matrix("o.bin").values == std::vector<std::uint16_t>{1, 0, 65535, 2, 0, 9, 65535, 65535}));
  REQUIRE(tool("spmm-convert", {"wide.bin", "s.bin", "--scale", "1/65536", "--round"}).exit_code == kOk);
  CHECK((spmm::read_matrix("s.bin") ==
         spmm::BlockMatrix{.n = 8, .m = 2, .index = {{0, 0}, {1, 3}}, .values = {0, 0, 1, 0, 0, 0, 1, 1}}));
}

}  // namespace
