// Results in parts from the command line: the same bytes, what is refused, what a killed run leaves.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cli/exit_codes.hpp"
#include "cli/parts/parts_place.hpp"
#include "spmm/io.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;

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

/// Waits for the one temporary folder and its lock: other runs take a folder without a lock for a leftover.
bool wait_for_locked_hidden() {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (std::chrono::steady_clock::now() < give_up) {
    const Words now = hidden_names();
    const int fd = now.size() == 1 ? ::open(now.front().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    const bool is_locked = fd >= 0 && ::flock(fd, LOCK_SH | LOCK_NB) != 0;
    if (fd >= 0) ::close(fd);
    if (is_locked) return true;
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
  REQUIRE(wait_for_locked_hidden());
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
  CHECK(tool("spmm-cat", {"saved", "joined"}).exit_code == kOk);
}

}  // namespace
