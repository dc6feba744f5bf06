// Signals that end the process: no temporary file is left, whatever the threads are doing.
#include "base/temporary_names.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "io/files/output_file.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/wrapped_calls.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using io::OutputFile;
using io::TempKind;
namespace fs = std::filesystem;

constexpr int kEnded = 75;

void put_empty(const fs::path& path, TempKind kind) {
  OutputFile file(path, {}, kind);
  file.finish(kHeader);
  file.publish();
}

std::atomic<int> num_handled{0};
std::atomic<int> num_handled_in_rename{0};

TEST_CASE("a signal of the publishing thread waits until the rename is done") {
  const TemporaryFolder folder;
  struct sigaction before {};
  struct sigaction action {};
  action.sa_handler = [](int) { ++num_handled; };
  ::sigaction(SIGTERM, &action, &before);
  const CallsRestored table;
  system_calls.renameat = [](int from_folder, const char* from, int to_folder, const char* to) {
    ::raise(SIGTERM);
    num_handled_in_rename += num_handled;
    return real_calls.renameat(from_folder, from, to_folder, to);
  };
  for (const TempKind kind : {TempKind::automatic, TempKind::named}) {
    num_handled = 0;
    num_handled_in_rename = 0;
    write_bytes(folder / "c", "old");
    put_empty(folder / "c", kind);
    CHECK(num_handled_in_rename == 0);
    CHECK(num_handled == 1);
  }
  ::sigaction(SIGTERM, &before, nullptr);
}

/// Runs `body` in a child process in which SIGTERM removes temporary files and ends the process, as the second signal
/// does in the programs. Returns its exit status.
int status_of_child(const std::function<void()>& body) {
  return exit_status_of([&] {
    struct sigaction action {};
    action.sa_handler = [](int) {
      remove_temporary_files();
      ::_exit(kEnded);
    };
    ::sigaction(SIGTERM, &action, nullptr);
    body();
    return 0;
  });
}

TEST_CASE("the process ends while outputs with names are open") {
  const TemporaryFolder folder;
  const int status = status_of_child([&] {
    const OutputFile first(folder / "a", {}, TempKind::named);
    const OutputFile second(folder / "b", {}, TempKind::named);
    { const OutputFile gone(folder / "c", {}, TempKind::named); }
    put_empty(folder / "d", TempKind::named);
    const OutputFile third(folder / "e", {}, TempKind::named);
    if (folder.names().size() == 4) ::raise(SIGTERM);
  });
  CHECK(status == kEnded);
  CHECK(folder.names() == std::vector<std::string>{"d"});
}

TEST_CASE("a file whose name is being set while the process ends is removed, too, and no other is begun") {
  if (!kForksWithThreads) {
    WARN("not with this sanitizer or emulator");
    return;
  }
  const TemporaryFolder folder;
  const int status = status_of_child([&] {
    std::atomic<bool> is_inside = false;
    std::thread([&] {
      const ProtectedSection section;
      is_inside = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      write_bytes(folder / "late", "x");
      (new TemporaryName)->set(section, ::open(folder.path().c_str(), O_PATH | O_CLOEXEC), "late");
    }).detach();
    while (!is_inside) std::this_thread::yield();
    remove_temporary_files();
    if (!folder.names().empty()) ::_exit(1);
    std::thread([&] { put_empty(folder / "never", TempKind::named); }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::_exit(kEnded);
  });
  CHECK(status == kEnded);
  CHECK(folder.names().empty());
}

TEST_CASE("the process does not end while an output is given its name, and then it may") {
  const TemporaryFolder folder;
  const int status = status_of_child([&] {
    const OutputFile file(folder / "c", {}, TempKind::named);
    {
      const Publication outer;
      const Publication inner;
      if (try_remove_temporary_files() || folder.names().size() != 1) ::_exit(1);
    }
    if (!try_remove_temporary_files() || !folder.names().empty()) ::_exit(2);
    ::_exit(kEnded);
  });
  CHECK(status == kEnded);
}

}  // namespace
