// Results in parts from the command line: the same bytes, what is refused, what a killed run leaves.
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/memory.hpp"
#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "io/crc32.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "support/oracle.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

ProcessResult tool(const std::string& name, const Words& arguments) {
  Words words = {std::string(SPMM_BIN_DIR) + "/" + name};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_process(words);
}

/// Runs spmm on the CPU and expects success.
void multiply(Words arguments) {
  arguments.insert(arguments.begin(), {"-q", "--backend", "cpu"});
  const ProcessResult result = spmm_command(arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == kOk);
}

Json index_of(const fs::path& folder) {
  return parse_report("parts-index", bytes_of(folder / "index.json"));
}

/// Operands with enough rows for parts that can be equal.
void write_even_operands() {
  spmm::write_matrix("x.bin", random_matrix(2048, 4, 6000, 65535, 31));
  spmm::write_matrix("y.bin", random_matrix(2048, 4, 6000, 65535, 32));
}

TEST_CASE("spmm-cat makes the bytes of a run without parts, whatever the kernel and the memory limit are") {
  const Workplace workplace;
  write_even_operands();
  multiply({"x.bin", "y.bin", "one.bin"});
  std::vector<Words> ways = {{},
                             {"--kernel", "reference"},
                             {"--threads", "7"},
                             {"--memory-limit", "2700k"},
                             {"--verify", "50"},
                             {"--verify", "full"},
                             {"--durable"}};
  // So little only with OpenBLAS: in slabs of the dense kernel.
  const bool has_blas = spmm_command({"--version"}).out.find("built without OpenBLAS") == std::string::npos;
  if (has_blas) ways.push_back({"--memory-limit", "1500k"});
  for (const Words& way : ways) {
    for (const std::string parts : {"1", "7", "auto"}) {
      INFO(parts << " parts " << (way.empty() ? "" : way.front()));
      Words arguments = way;
      arguments.insert(arguments.end(), {"--parts", parts, "x.bin", "y.bin", "c"});
      multiply(arguments);
      REQUIRE(tool("spmm-cat", {"-q", "c", "c.bin"}).exit_code == kOk);
      CHECK((bytes_of("c.bin") == bytes_of("one.bin")));
      CHECK(tool("spmm-compare", {"c", "one.bin"}).exit_code == kOk);
      const Json index = index_of("c");
      CHECK(index["parts"].size() == (parts == "auto" ? 1 : std::stoul(parts)));
      CHECK(index["bytes"] == fs::file_size("one.bin"));
      CHECK(names_in("c").size() == index["parts"].size() + 1);
    }
  }
  CHECK(names_in(".") == Words{"a.bin", "b.bin", "c", "c.bin", "old.bin", "one.bin", "x.bin", "y.bin"});
}

TEST_CASE("every part is a result file, and sizes and report agree with the index") {
  const Workplace workplace;
  write_even_operands();
  multiply({"--parts", "5", "--report", "r.json", "x.bin", "y.bin", "c"});
  const Json index = index_of("c");
  const Json report = parse_report("report", bytes_of("r.json"));
  CHECK(report["c"]["parts"] == index["parts"]);
  CHECK(report["c"]["blocks"] == index["blocks"]);
  CHECK(report["plan"]["parts"] == 5);
  std::uint64_t smallest = UINT64_MAX;
  std::uint64_t largest = 0;
  for (const Json& part : index["parts"]) {
    const fs::path path = fs::path("c") / part["file"].get<std::string>();
    const std::uint64_t bytes = part["bytes"];
    CHECK(bytes == fs::file_size(path));
    smallest = std::min(smallest, bytes);
    largest = std::max(largest, bytes);
    const spmm::ProductMatrix matrix = spmm::read_product(path);
    CHECK(matrix.n == 2048);
    CHECK(matrix.index.size() == part["blocks"]);
    CHECK(matrix.index.front().i >= part["row_begin"]);
    CHECK(matrix.index.back().i < part["row_end"]);
    const std::string python = "import zlib;print('%08x'%zlib.crc32(open('" + path.string() + "','rb').read()))";
    const ProcessResult checked = run_process({"/usr/bin/env", "python3", "-c", python});
    if (checked.exit_code != 127) CHECK(checked.out == part["crc32"].get<std::string>() + "\n");
  }
  CHECK(largest * 10 < smallest * 11);
  CHECK((spmm::read_product("c").index.size() == index["blocks"]));
  CHECK(spmm::read_header("c", spmm::ElementType::u32).num_blocks == index["blocks"]);
  const ProcessResult info = tool("spmm-info", {"--json", "c"});
  CHECK(Json::parse(info.out)["blocks"] == index["blocks"]);
  const ProcessResult plan = spmm_command({"--backend", "cpu", "--plan", "--parts", "5", "x.bin", "y.bin"});
  CHECK(plan.out.find("parts: 5 files") != std::string::npos);
}

TEST_CASE("the battery: one file of the parts of each product equals the product") {
  const Workplace workplace;
  for (const std::uint32_t m : {1u, 8u}) {
    for (const Recipe& recipe : battery()) {
      INFO(recipe.name << ", m = " << m);
      const auto [x, y] = recipe.make(m, 3);
      spmm::write_matrix("x.bin", x);
      spmm::write_matrix("y.bin", y);
      multiply({"x.bin", "y.bin", "one.bin"});
      multiply({"--parts", "3", "x.bin", "y.bin", "c"});
      REQUIRE(tool("spmm-cat", {"-q", "c", "c.bin"}).exit_code == kOk);
      REQUIRE((bytes_of("c.bin") == bytes_of("one.bin")));
    }
  }
}

TEST_CASE("what may not be replaced is refused with 73 and stays as it was") {
  const Workplace workplace;
  const auto refused = [](const Words& arguments, const std::string& why) {
    Words words = {"--backend", "cpu"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const ProcessResult result = spmm_command(words);
    INFO(result.err);
    CHECK(result.exit_code == kCannotCreate);
    CHECK(result.err.find(why) != std::string::npos);
  };
  const Words parts = {"--parts", "2", "a.bin", "b.bin"};
  const auto to = [&](const std::string& out) {
    Words words = parts;
    words.push_back(out);
    return words;
  };
  fs::create_directory("empty");
  refused(to("empty"), "without an index");
  refused(to("old.bin"), "is a regular file, expected a folder of parts");
  refused(to("/dev/null"), "expected a folder of parts");
  refused(to("nowhere/c"), "cannot use the folder");
  multiply(to("c"));
  multiply(to("c"));
  const std::string before = bytes_of("c/part-000.bin");
  refused({"a.bin", "b.bin", "c"}, "is a directory");
  refused({"--no-clobber", "--parts", "2", "a.bin", "b.bin", "c"}, "must not be replaced");
  write_bytes("c/notes.txt", "mine");
  refused(to("c"), "holds notes.txt, which its index does not name");
  fs::remove("c/notes.txt");
  std::string index = bytes_of("c/index.json");
  write_bytes("c/index.json", index.substr(0, index.size() / 2));
  refused(to("c"), "is not the JSON index");
  write_bytes("c/index.json", index);
  CHECK(bytes_of("c/part-000.bin") == before);
  CHECK(bytes_of("old.bin") == kOldContent);
  fs::create_directory("inputs");
  fs::rename("c", "inputs/c");
  fs::copy_file("a.bin", "inputs/c/part-000.bin", fs::copy_options::overwrite_existing);
  const ProcessResult own = spmm_command({"--parts", "2", "inputs/c/part-000.bin", "b.bin", "inputs/c"});
  CHECK(own.exit_code == kUsage);
  for (const std::string value : {"0", "257", "-1", "few", ""}) {
    CHECK(spmm_command({"--parts", value, "a.bin", "b.bin", "d"}).exit_code == kUsage);
  }
  CHECK(names_in(".") == Words{"a.bin", "b.bin", "empty", "inputs", "old.bin"});
}

TEST_CASE("a folder that is replaced keeps its permission bits, and a link to it stays") {
  const Workplace workplace;
  multiply({"--parts", "3", "a.bin", "b.bin", "c"});
  fs::permissions("c", static_cast<fs::perms>(0750));
  fs::create_symlink("c", "link");
  multiply({"--parts", "2", "a.bin", "b.bin", "link"});
  CHECK(fs::is_symlink("link"));
  CHECK(fs::status("c").permissions() == static_cast<fs::perms>(0750));
  CHECK(names_in("c") == Words{"index.json", "part-000.bin", "part-001.bin"});
  multiply({"--parts", "2", "a.bin", "b.bin", "c/"});
}

TEST_CASE("spmm-cat refuses a part that was changed, one that is missing, and what is no folder of parts") {
  const Workplace workplace;
  multiply({"--parts", "2", "a.bin", "b.bin", "c"});
  CHECK(tool("spmm-cat", {"--check", "c"}).exit_code == kOk);
  const std::string part = bytes_of("c/part-001.bin");
  std::string changed = part;
  changed.back() ^= 1;
  write_bytes("c/part-001.bin", changed);
  ProcessResult result = tool("spmm-cat", {"c", "old.bin"});
  CHECK(result.exit_code == kBadData);
  CHECK(result.err.find("c/part-001.bin") != std::string::npos);
  CHECK(result.err.find("checksum") != std::string::npos);
  write_bytes("c/part-001.bin", part.substr(0, part.size() - 1));
  CHECK(tool("spmm-cat", {"c", "old.bin"}).exit_code == kBadData);
  fs::remove("c/part-001.bin");
  CHECK(tool("spmm-cat", {"c", "old.bin"}).exit_code == kNoInput);
  CHECK(tool("spmm-cat", {"a.bin", "old.bin"}).exit_code == kNoInput);
  CHECK(tool("spmm-cat", {".", "old.bin"}).exit_code == kBadData);
  CHECK(tool("spmm-cat", {"c"}).exit_code == kUsage);
  CHECK(tool("spmm-cat", {"--check", "c", "d.bin"}).exit_code == kUsage);
  CHECK(bytes_of("old.bin") == kOldContent);
}

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
    const ProcessResult result = tool("spmm-cat", {"--check", "c"});
    INFO(result.err << result.peak_resident_bytes);
    CHECK(result.exit_code == kBadData);
    CHECK(result.peak_resident_bytes < std::max<std::uint64_t>(50'000'000, spmm::peak_resident_bytes()));
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
  refused("spmm-gen", {"c.npz", "--n", "8", "--m", "4", "--k", "1"}, "spmm-convert c.bin c.npz");
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

/// Temporary names, which begin with a dot.
Words hidden_names() {
  Words hidden = names_in(".");
  hidden.erase(std::remove_if(hidden.begin(), hidden.end(), [](const auto& name) { return name.front() != '.'; }),
               hidden.end());
  return hidden;
}
std::size_t num_hidden() {
  return hidden_names().size();
}

/// Waits for a temporary folder that is none of those before, which a new run has removed by then.
bool wait_for_new_hidden(const Words& before) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (std::chrono::steady_clock::now() < give_up) {
    const Words now = hidden_names();
    if (now.size() == 1 && now != before) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

TEST_CASE("SIGTERM and SIGKILL leave the old folder as it was; the next run removes what a killed one has left") {
  const Workplace workplace;
  spmm::write_matrix("x.bin", random_matrix(8192, 8, 60000, 2000, 41));
  multiply({"--parts", "2", "a.bin", "b.bin", "c"});
  const std::string before = bytes_of("c/index.json");
  Words slow = spmm_words({"-q", "--backend", "cpu", "--kernel", "reference", "--parts", "4", "x.bin", "x.bin", "c"});
  for (const int number : {SIGTERM, SIGKILL, SIGKILL}) {
    const Words left_before = hidden_names();
    Process process(slow);
    process.wait_until_handled(SIGTERM);
    REQUIRE(wait_for_new_hidden(left_before));
    process.send_signal(number);
    const ProcessResult result = process.wait();
    CHECK(bytes_of("c/index.json") == before);
    if (number == SIGTERM) {
      CHECK(result.exit_code == kInterrupted);
      CHECK(num_hidden() == 0);
    } else {
      CHECK(result.signal == SIGKILL);
      CHECK(num_hidden() == 1);
    }
  }
  multiply({"--parts", "2", "a.bin", "b.bin", "c"});
  CHECK(num_hidden() == 0);
}

TEST_CASE("a run does not remove the temporary folder of another one that lives") {
  const Workplace workplace;
  spmm::write_matrix("x.bin", random_matrix(8192, 8, 60000, 2000, 41));
  Process process(
      spmm_words({"-q", "--backend", "cpu", "--kernel", "reference", "--parts", "4", "x.bin", "x.bin", "c"}));
  REQUIRE(wait_for_new_hidden({}));
  process.send_signal(SIGSTOP);  // so that it lives until the other one has ended
  multiply({"--parts", "2", "a.bin", "b.bin", "c"});
  CHECK(num_hidden() == 1);
  process.send_signal(SIGKILL);
  process.wait();
}

TEST_CASE("a disk that is full in the middle of a part is 74; the old folder stays and nothing else") {
  const Workplace workplace;
  write_even_operands();
  fs::create_directory("out");
  const std::string spmm = std::string(SPMM_BIN_DIR) + "/spmm -q --backend cpu --parts 3 ";
  const ProcessResult result = run_process(
      {"/usr/bin/env", "unshare", "-m", "/bin/sh", "-c",
       "mount -t tmpfs -o size=1m none out || exit 77\n" + spmm + "a.bin b.bin out/c; echo $? > code\n" + spmm +
           "x.bin y.bin out/c 2> err; echo $? > code2\nls -A out > names; ls -A out/c >> names; cp -r out/c saved\n"});
  if (result.exit_code == 77 || !fs::exists("code2")) {
    WARN("skipped: no file system can be mounted here: " << result.err);
    return;
  }
  INFO(bytes_of("err"));
  CHECK(bytes_of("code") == "0\n");
  CHECK(bytes_of("code2") == "74\n");
  CHECK(bytes_of("err").find("No space left on device") != std::string::npos);
  CHECK(bytes_of("err").find("out/c/part-00") != std::string::npos);
  CHECK(bytes_of("names") == "c\nindex.json\npart-000.bin\npart-001.bin\npart-002.bin\n");
  CHECK(tool("spmm-cat", {"--check", "saved"}).exit_code == kOk);
}

}  // namespace
