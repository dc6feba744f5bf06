// The small parts: packets, lines of a feed, GPUs, checks of files, progress line.
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <system_error>

#include "base/visible_gpus.hpp"
#include "cli/exit_codes.hpp"
#include "cli/failure.hpp"
#include "io/files/output_file.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "tools/batch/journal/check.hpp"
#include "tools/batch/list/line_feed.hpp"
#include "tools/batch/output.hpp"
#include "tools/batch/schedule/pool.hpp"
#include "tools/batch/worker/message.hpp"

namespace {

using namespace spmm;
using namespace spmm::batch;
using spmm::test::TemporaryFolder;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

void touch(const fs::path& path) {
  std::ofstream(path) << "x";
}

/// Lines that come out when `pieces` are written one after the other.
Names fed(const Names& pieces) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  LineFeed feed(ends[0]);
  Names lines;
  const auto read = [&] {
    for (std::string& line : feed.read_lines()) lines.push_back(std::move(line));
  };
  for (const std::string& piece : pieces) {
    CHECK(::write(ends[1], piece.data(), piece.size()) == static_cast<ssize_t>(piece.size()));
    read();
    CHECK_FALSE(feed.has_ended());
  }
  ::close(ends[1]);
  while (!feed.has_ended()) read();
  ::close(ends[0]);
  return lines;
}

}  // namespace

TEST_CASE("batch: a thread that cannot be started is want of memory, and the worker stays") {
  const auto code_of = [](const auto& error) {
    try {
      throw error;
    } catch (...) {
      return cli::failure_of_current_exception().exit_code;
    }
  };
  const int no_thread = code_of(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(no_thread == cli::kMemory);
  CHECK(may_pass(no_thread));
  CHECK_FALSE(breaks_worker(no_thread));
  CHECK(code_of(std::system_error(std::make_error_code(std::errc::bad_file_descriptor))) == cli::kInternal);
  CHECK(breaks_worker(code_of(DeviceError("gpu", "fault", "replace it"))));
}

TEST_CASE("packets between the processes") {
  JobOrder order{.id = 7, .num_threads = 3};
  order.job.line = 12;
  order.job.a = "/a";
  order.job.b = std::string(4000, 'b');
  order.job.out = "/c\n";
  order.job.options.kernel = "row-merge";
  order.job.options.durable = true;
  order.job.options.on_saturation = OnSaturation::error;
  const auto back = std::get<JobOrder>(decode(encode(order)));
  CHECK(back.id == 7);
  CHECK(back.job.line == 12);
  CHECK(back.job.b == order.job.b);
  CHECK(back.job.out == "/c\n");
  CHECK(back.job.options.kernel == "row-merge");
  CHECK(back.job.options.durable);
  CHECK(back.job.options.on_saturation == OnSaturation::error);
  CHECK(back.num_threads == 3);
  CHECK(std::get<CancelOrder>(decode(encode(CancelOrder{.id = 9}))).id == 9);
  const auto packet = encode(JobResult{.id = 1, .exit_code = 65, .saturated_elements = 4, .message = "bad"});
  CHECK(std::get<JobResult>(decode(packet)).saturated_elements == 4);
  CHECK(std::get<JobResult>(decode(packet)).message == "bad");
  for (std::size_t length = 0; length < packet.size(); ++length) {
    CHECK_THROWS_AS(decode(std::span(packet).first(length)), std::runtime_error);
  }
  // The longest possible texts still are one packet.
  CHECK(encode(JobResult{.id = 1, .message = std::string(1'000'000, 'm')}).size() < kMaxPacket);
}

TEST_CASE("sending says whether the other side is slow or gone") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()) == 0);
  CHECK_FALSE(receive_message(ends[1], false).message);
  SendState state = SendState::sent;
  for (int i = 0; i < 100'000 && state == SendState::sent; ++i) state = send_message(ends[0], CancelOrder{}, false);
  CHECK(state == SendState::full);
  ::close(ends[1]);
  CHECK(send_message(ends[0], CancelOrder{}, false) == SendState::closed);
  CHECK(receive_message(ends[0], false).closed);
  ::close(ends[0]);
}

TEST_CASE("lines of a feed, however they come") {
  CHECK(fed({"a\nb\n"}) == Names{"a", "b"});
  CHECK(fed({"a", "b\n\nc"}) == Names{"ab", "", "c"});
  CHECK(fed({}).empty());
  Names pieces(20, std::string(8000, 'x'));
  pieces.emplace_back("end\nnext\n");
  const Names lines = fed(pieces);
  REQUIRE(lines.size() == 2);  // one cut, its rest left out
  CHECK(lines[0].size() == 65536);
  CHECK(lines[1] == "next");
}

TEST_CASE("GPUs are found by files of the driver") {
  const TemporaryFolder folder;
  const fs::path driver = folder.path() / "proc/driver/nvidia/gpus";
  const fs::path devices = folder.path() / "dev";
  const auto found = [&](std::optional<std::string> visible) { return visible_gpus(visible, folder.path()); };
  CHECK(found(std::nullopt).empty());
  CHECK_FALSE(has_gpu_driver(folder.path()));
  fs::create_directories(devices);
  for (const char* gpu : {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"}) fs::create_directories(driver / gpu);
  CHECK(found(std::nullopt).empty());
  CHECK(has_gpu_driver(folder.path()));
  for (const char* file : {"nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"}) touch(devices / file);
  CHECK(found(std::nullopt) == Names{"0", "1", "2"});
  CHECK(found("") == Names{});
  CHECK(found("-1") == Names{});
  CHECK(found("2, 0") == Names{"2", "0"});
  CHECK(found("1,7,0") == Names{"1"});  // as CUDA: nothing after an invalid entry
  CHECK(found("GPU-8f2b,MIG-77") == Names{"GPU-8f2b", "MIG-77"});
  const Names all = {"2", "0"};
  CHECK(wanted_gpus("auto", "--gpus", all) == all);
  CHECK(wanted_gpus("none", "--gpus", all).empty());
  CHECK(wanted_gpus("1", "--gpus", all) == Names{"0"});
  CHECK_THROWS_AS(wanted_gpus("2", "--gpus", all), UsageError);
  CHECK_THROWS_AS(wanted_gpus("0,0", "--gpus", all), UsageError);
  CHECK_THROWS_AS(wanted_gpus("0,", "--gpus", all), UsageError);
}

TEST_CASE("GPUs are found where the driver lists none: containers, WSL2, Jetson") {
  struct Case {
    std::string library;
    std::vector<std::string> files;
    Names gpus;
  };
  const std::vector<Case> table = {
      {"usr/lib64", {"nvidia0", "nvidia1", "nvidiactl"}, {"0", "1"}},
      {"usr/lib/wsl/lib", {"dxg"}, {"0"}},
      {"usr/lib/aarch64-linux-gnu/tegra", {"nvhost-gpu", "nvhost-ctrl-gpu"}, {"0"}},
      {"usr/lib/aarch64-linux-gnu/nvidia", {"nvgpu/igpu0/ctrl"}, {"0"}},
      {"usr/lib", {"null"}, {}},
  };
  for (const Case& c : table) {
    const TemporaryFolder folder;
    for (const std::string& file : c.files) {
      const fs::path path = folder.path() / "dev" / file;
      fs::create_directories(path.parent_path());
      touch(path);
    }
    INFO(c.library);
    CHECK(visible_gpus(std::nullopt, folder.path()).empty());  // a device without a driver, as every WSL2 has it
    fs::create_directories(folder.path() / c.library);
    CHECK_FALSE(has_gpu_driver(folder.path()));
    touch(folder.path() / c.library / "libcuda.so.1");
    CHECK(has_gpu_driver(folder.path()));
    CHECK(visible_gpus(std::nullopt, folder.path()) == c.gpus);
    CHECK(visible_gpus("", folder.path()).empty());
    const bool tells_number = c.files.front() == "nvidia0";
    if (!c.gpus.empty()) CHECK(visible_gpus("1", folder.path()) == Names{"1"});
    CHECK(visible_gpus("17", folder.path()).empty());
    CHECK(visible_gpus("0,5", folder.path()).size() == (c.gpus.empty() ? 0 : tells_number ? 1 : 2));
  }
}

TEST_CASE("what is wrong with a list's files") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) touch(folder.path() / name);
  fs::create_directory(folder.path() / "sub");
  fs::create_symlink(folder.path() / "c1", folder.path() / "link_to_c1");
  fs::create_symlink(folder.path() / "a", folder.path() / "link_to_a");
  struct Case {
    std::string list;
    int exit_code;
    std::string part;
  };
  const std::vector<Case> table = {
      {"a\tb\tc1\na\tb\tc2\na\tb\t/dev/null\na\tb\t/dev/null\n", 0, ""},
      {"a\tx\tc1\n", cli::kNoInput, "is not there"},
      {"a\tsub\tc1\n", cli::kNoInput, "no regular file"},
      {"a\tb\tc1\nb\ta\tc1\n", cli::kBadData, "is the output of line 1"},
      {"a\tb\tc1\nb\ta\tlink_to_c1\n", cli::kBadData, "under another name"},
      {"a\ta\tc1\nb\tb\ta\n", cli::kBadData, "is an input of line 1"},
      {"a\ta\tc1\nb\tb\tlink_to_a\n", cli::kBadData, "the same file as an input of line 1"},
      {"a\tb\tnone/c1\n", cli::kCannotCreate, "is no folder"},
      {"a\tb\tsub\n", cli::kCannotCreate, "is a directory"},
  };
  for (const Case& c : table) {
    const JobList list = parse_job_list(c.list, {.name = "l", .folder = folder.path().string()}, {});
    std::vector<std::size_t> mine(list.jobs.size());
    std::iota(mine.begin(), mine.end(), std::size_t{0});
    const ListProblems problems = check_list(list.jobs, mine, "l", {});
    INFO(c.list << (problems.messages.empty() ? "" : problems.messages[0]));
    CHECK(problems.exit_code == c.exit_code);
    CHECK((problems.messages.empty() ? c.part.empty() : problems.messages[0].find(c.part) != std::string::npos));
    // Nothing of another shard is examined; names are compared all the same.
    const ListProblems none = check_list(list.jobs, {}, "l", {});
    CHECK(none.num_problems == (c.part == "is the output of line 1" || c.part == "is an input of line 1" ? 1 : 0));
  }
}

TEST_CASE("leftovers of these outputs go, other files stay") {
  const TemporaryFolder folder;
  for (const char* name : {".c.bin.spmm-aB3xyZ.tmp", ".c.bin.spmm-000000.tmp", ".d.bin.spmm-aB3xyZ.tmp", ".c.bin.tmp",
                           "c.bin", ".c.bin.spmm-aB3xy.tmp"}) {
    touch(folder.path() / name);
  }
  CHECK(remove_leftovers({folder.file("c.bin"), "/dev/null", folder.file("none/x")}) == 2);
  Names left;
  for (const auto& entry : fs::directory_iterator(folder.path())) left.push_back(entry.path().filename().string());
  CHECK(left.size() == 4);
}

TEST_CASE("a temporary file that a process still writes is no leftover") {
  const TemporaryFolder folder;
  const std::string out = folder.file("c.bin");
  {
    const io::OutputFile file(out, {}, io::TempKind::named);
    REQUIRE(!fs::is_empty(folder.path()));
    CHECK(remove_leftovers({out}) == 0);
    CHECK(!fs::is_empty(folder.path()));
  }
  REQUIRE(::mkfifo(folder.file(".c.bin.spmm-aB3xyZ.tmp").c_str(), 0600) == 0);  // nothing of ours
  CHECK(remove_leftovers({out}) == 0);
}

TEST_CASE("files of the run itself, under any name") {
  const TemporaryFolder folder;
  touch(folder.path() / "list");
  touch(folder.path() / "x.bin");
  fs::create_directory(folder.path() / "journal");
  fs::create_symlink("list", folder.path() / "link");
  fs::create_hard_link(folder.path() / "list", folder.path() / "hard");
  fs::create_symlink(folder.path(), folder.path() / "here");
  OwnFiles own;
  own.add("the list", folder.file("list"));
  own.add("--report", folder.file("new.json"));
  own.add("--report", "/dev/null");
  own.add_journal(folder.file("journal"));
  for (const char* name : {"list", "link", "hard", "here/list"}) CHECK(own.find(folder.file(name)) == "the list");
  for (const char* name : {"new.json", "here/new.json"}) CHECK(own.find(folder.file(name)) == "the file of --report");
  CHECK(own.find(folder.file("journal/1-of-1.cpu.journal")) == "a file of the journal");
  CHECK(own.find(folder.file("journal/all.lock")) == "a file of the journal");
  for (const char* name : {"x.bin", "journal/x.bin", "none/new.json", "all.lock"})
    CHECK(own.find(folder.file(name)).empty());
  CHECK(own.problem_of({.a = folder.file("x.bin"), .b = folder.file("x.bin"), .out = "/dev/null"}).empty());
  CHECK_THROWS_AS(own.add("the list", folder.file("here/new.json")), UsageError);
}

TEST_CASE("the line of progress") {
  JobCounts counts{.total = 100, .waiting = 88, .running = 2, .done = 9, .failed = 1};
  counts.in_bytes = counts.out_bytes = 500'000'000;
  CHECK(batch_line(counts, 2, true) == "9/100 done, 1 failed, 2 running, 5 jobs/s, 500 MB/s, ETA 0:18");
  CHECK(batch_line(counts, 2, false) == "9/100+ done, 1 failed, 2 running, 5 jobs/s, 500 MB/s");
  CHECK(batch_line({.total = 3}, 0, true) == "0/3 done, 0 failed, 0 running");
}
