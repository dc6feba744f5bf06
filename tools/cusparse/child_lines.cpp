#include "tools/cusparse/child_lines.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <exception>
#include <system_error>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMs = 100;
constexpr char kFailureMark = '!';  // begins the line with what child() threw; JSON never begins so

[[noreturn]] void fail(const char* what) {
  throw IoError(what, std::generic_category().message(errno), "check the limits of processes and open files");
}

void write_all(int pipe, const std::string& all) {
  for (std::size_t done = 0; done < all.size();) {
    const ssize_t now = ::write(pipe, all.data() + done, all.size() - done);
    if (now < 0 && errno != EINTR) return;  // the parent has gone
    if (now > 0) done += static_cast<std::size_t>(now);
  }
}

[[noreturn]] void be_child(int pipe, const std::function<void(const SendLine& send)>& child) {
  try {
    child([&](const std::string& line) { write_all(pipe, line + "\n"); });
  } catch (const std::exception& e) {
    std::string why = e.what();
    std::replace(why.begin(), why.end(), '\n', ' ');
    write_all(pipe, kFailureMark + why + "\n");
  }
  ::_exit(0);  // nothing of the parent's is taken apart here
}

/// The child: killed and waited for when this goes.
class ChildProcess {
 public:
  ChildProcess(pid_t pid, int pipe) : pid_(pid), pipe_(pipe) {}
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    if (!done_) ::kill(pid_, SIGKILL);
    (void)wait();
    ::close(pipe_);
  }

  /// Its status, once.
  int wait() {
    if (done_) return status_;
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    done_ = true;
    return status_;
  }

 private:
  pid_t pid_;
  int pipe_;
  int status_ = 0;
  bool done_ = false;
};

}  // namespace

std::string run_child(double patience_s, const std::function<void(const SendLine& send)>& child,
                      const std::function<void(const std::string& line)>& on_line) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
  const pid_t pid = ::fork();
  if (pid < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    fail("fork");
  }
  if (pid == 0) be_child(ends[1], child);
  ::close(ends[1]);
  ChildProcess process(pid, ends[0]);
  std::string failure;
  std::string rest;
  auto last_word = Clock::now();
  for (;;) {
    cli::check_cancelled("spmm-cusparse");
    pollfd waiting{.fd = ends[0], .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, kPollMs);
    if (ready < 0 && errno != EINTR) fail("poll");
    if (ready <= 0) {
      if (std::chrono::duration<double>(Clock::now() - last_word).count() < patience_s) continue;
      return text("no word for ", patience_s, " s");
    }
    std::array<char, 4096> piece{};
    const ssize_t got = ::read(ends[0], piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    last_word = Clock::now();
    rest.append(piece.data(), static_cast<std::size_t>(got));
    for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
      const std::string line = rest.substr(0, end);
      rest.erase(0, end + 1);
      if (!line.empty() && line[0] == kFailureMark) {
        failure = line.substr(1);
      } else {
        on_line(line);
      }
    }
  }
  const int status = process.wait();
  if (WIFSIGNALED(status)) return text("signal ", WTERMSIG(status));
  return failure;
}

}  // namespace spmm::tools
