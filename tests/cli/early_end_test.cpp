// A process that leaves files behind, by a program that does with a plain file what spmm does with those of a GPU.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"
#include "tools/spmm/early_end.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
namespace fs = std::filesystem;

/// Runs a shell in a folder of its own, where ./probe is the program and ./held the folder of its slow file. Processes
/// that lose their parent become children of the tests.
class EarlyEnds {
 public:
  EarlyEnds() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    fs::copy_file(SPMM_EARLY_END_PROBE, folder_.path() / "probe");
    fs::create_directory(held());
  }
  ~EarlyEnds() { ::prctl(PR_SET_CHILD_SUBREAPER, 0); }
  EarlyEnds(const EarlyEnds&) = delete;
  EarlyEnds& operator=(const EarlyEnds&) = delete;

  [[nodiscard]] fs::path held() const { return folder_.path() / "held"; }
  [[nodiscard]] const fs::path& path() const { return folder_.path(); }

  [[nodiscard]] ProcessResult shell(const std::string& script) const {
    return run_process({"/bin/bash", "-c", "set -o pipefail; " + script}, {.env = {}, .folder = folder_.path()});
  }

  /// Whether a process holds the slow file.
  [[nodiscard]] bool is_held() const {
    const int fd = ::open((held() / "driver").c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    const bool is_free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    ::close(fd);
    return !is_free;
  }

  /// The process whose number ./probe wrote.
  [[nodiscard]] pid_t holder() const {
    pid_t pid = 0;
    std::ifstream(folder_.path() / "pid") >> pid;
    REQUIRE(pid > 1);
    return pid;
  }

  /// Lets the holder notice that the program has ended, and waits for its own end. Returns its status.
  [[nodiscard]] int end_holder() const {
    const pid_t pid = holder();
    ::kill(pid, SIGCONT);
    int status = -1;
    CHECK(::waitpid(pid, &status, 0) == pid);
    return status;
  }

 private:
  TemporaryFolder folder_;
};

/// A line of /proc/PID/status.
std::string status_line(pid_t pid, const std::string& key) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
  }
  return "";
}

}  // namespace

TEST_CASE("a process that ends early leaves one file and nothing else") {
  const EarlyEnds place;
  // Descriptors 7 and 9 come from the shell.
  const ProcessResult run = place.shell("exec 7>lock 9<probe; ./probe held stop pid 2>errors");
  CHECK(run.exit_code == 0);
  CHECK(run.out == "done\n");
  CHECK(place.is_held());
  const pid_t pid = place.holder();
  const fs::path process = "/proc/" + std::to_string(pid);
  CHECK(fs::read_symlink(process / "cwd") == "/");
  CHECK(fs::read_symlink(process / "exe").parent_path() != place.path());
  CHECK(bytes_of(process / "environ").empty());
  std::multiset<std::string> files;
  for (const auto& entry : fs::directory_iterator(process / "fd")) {
    const std::string file = fs::read_symlink(entry.path()).string();
    files.insert(file.starts_with("pipe:") ? "pipe" : file);
  }
  const std::multiset<std::string> expected = {"pipe", "/dev/null", "/dev/null", (place.held() / "driver").string()};
  CHECK(files == expected);
  CHECK(status_line(pid, "SigBlk") == "fffffffe7ffbfeff");  // all that can be blocked, but two of the C library
  CHECK(bytes_of(process / "maps").find(place.path().string()) == std::string::npos);
  CHECK(place.end_holder() == 0);
  CHECK_FALSE(place.is_held());
}

TEST_CASE("while files are held, shells and files go on as if the process had closed them") {
  const EarlyEnds place;
  const std::vector<std::string> scripts = {
      "flock -n lock ./probe held stop pid && flock -n lock true",
      "test \"$(./probe held stop pid)\" = done",
      "test \"$(./probe held stop pid | tee copy)\" = done && cmp <(echo done) copy",
      "timeout 20 ./probe held stop pid",
      "cp probe again && ./probe held stop pid && cp again probe",
      "mkdir work && cd work && ../probe ../held stop ../pid 3>file && cd .. && rm -r work && test ! -e work",
      "./probe held stop pid && rm probe && cp again probe",
  };
  for (const std::string& script : scripts) {
    INFO(script);
    const ProcessResult run = place.shell(script);
    CHECK(run.exit_code == 0);
    CHECK(run.err.empty());
    CHECK(place.is_held());
    CHECK(place.end_holder() == 0);
    CHECK_FALSE(place.is_held());
  }
}

TEST_CASE("a file system can go while files of another one are held") {
  const EarlyEnds place;
  const std::string script =
      "mkdir disk && mount -t tmpfs none disk 2>/dev/null || exit 77; cp probe disk/; cd disk; ./probe ../held stop "
      "../pid >out; cd ..; umount disk";
  const ProcessResult run = place.shell(script);
  if (run.exit_code == 77) return;  // only root may mount
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  CHECK(place.end_holder() == 0);
}

TEST_CASE("a thousand early ends leave a thousand processes to reap, and none of them behind") {
  const EarlyEnds place;
  const ProcessResult run = place.shell("seq 1000 | xargs -P 8 -I{} sh -c 'mkdir held{} && ./probe held{}'");
  CHECK(run.exit_code == 0);
  CHECK(run.err.empty());
  int num_reaped = 0;
  int status = 0;
  while (::waitpid(-1, &status, 0) > 0) num_reaped += status == 0 ? 1 : 0;  // until there is no child any more
  CHECK(num_reaped == 1000);
}

TEST_CASE("a process ends as usual where it holds no such file, or is preloaded") {
  const fs::path before = fs::current_path();
  CHECK_FALSE(tools::leave_files("/no/such/folder"));
  fs::current_path(before);
  ::setenv("LD_PRELOAD", "x.so", 1);
  CHECK_FALSE(tools::may_end_early());
  ::unsetenv("LD_PRELOAD");
}

TEST_CASE("--no-wait changes nothing where the CPU computes") {
  const Workplace workplace;
  CHECK(spmm_command({"--backend", "cpu", "a.bin", "b.bin", "c.bin"}).exit_code == cli::kOk);
  const std::string bytes = bytes_of("c.bin");
  CHECK(spmm_command({"--backend", "cpu", "--no-wait", "a.bin", "b.bin", "d.bin"}).exit_code == cli::kOk);
  CHECK(bytes_of("d.bin") == bytes);
  const ProcessResult by_variable = spmm_command({"a.bin", "b.bin", "e.bin"}, {{"SPMM_NO_WAIT", "1"}});
  CHECK(by_variable.exit_code == cli::kOk);
  CHECK(by_variable.err.empty());
  CHECK(bytes_of("e.bin") == bytes);
}
