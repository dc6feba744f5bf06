#include "support/process.hpp"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

#include "test_paths.hpp"

namespace spmm::test {
namespace {

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

/// The environment of the child as "NAME=value".
std::vector<std::string> environment_of(const ProcessOptions& options) {
  std::vector<std::string> entries;
  const auto is_replaced = [&](std::string_view entry) {
    for (const auto& [name, value] : options.env) {
      if (entry.substr(0, entry.find('=')) == name) return true;
    }
    return false;
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.substr(0, 5) != "SPMM_" && !is_replaced(text)) entries.emplace_back(text);
  }
  for (const auto& [name, value] : options.env) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers_of(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Starts what is built for another machine, such as these tests, by the emulator of the build (a list of CMake).
void add_emulator(std::vector<std::string>& arguments) {
  std::istringstream words(SPMM_EMULATOR);
  Elf64_Ehdr head{};
  std::ifstream(arguments.at(0), std::ios::binary).read(reinterpret_cast<char*>(&head), sizeof head);
  if (words.str().empty() || head.e_machine != EM_AARCH64) return;
  std::vector<std::string> emulator;
  for (std::string word; std::getline(words, word, ';');) emulator.push_back(word);
  arguments.insert(arguments.begin(), emulator.begin(), emulator.end());
}

/// Signals behave as in a program started by hand, whatever the parent of the tests ignores.
void reset_signals(posix_spawnattr_t& attributes) {
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) sigaddset(&defaults, number);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

pid_t spawn(std::vector<std::string> arguments, std::vector<std::string> environment, const std::string& folder,
            int out, int err) {
  add_emulator(arguments);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  check(posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
  check(posix_spawnattr_init(&attributes), "posix_spawnattr_init");
  reset_signals(attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  if (!folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, arguments.at(0).c_str(), &actions, &attributes, pointers_of(arguments).data(),
                                 pointers_of(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  check(error, arguments[0].c_str());
  return pid;
}

/// Whether it handles the signal, or has ended and only waits to be waited for.
bool handles_or_has_ended(pid_t pid, int number) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("State:\tZ", 0) == 0) return true;
    if (line.rfind("SigCgt:", 0) != 0) continue;
    return (std::stoull(line.substr(7), nullptr, 16) >> (number - 1) & 1) != 0;
  }
  return false;
}

/// Reads what is there; false at the end of the stream.
bool drain(int fd, std::string& into) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

}  // namespace

Process::Process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  check(pipe2(out.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe2");
  check(pipe2(err.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe2");
  out_ = out[0];
  err_ = err[0];
  try {
    pid_ = spawn(argv, environment_of(options), options.folder.string(), out[1], err[1]);
  } catch (...) {
    for (const int fd : {out[0], out[1], err[0], err[1]}) close(fd);
    throw;
  }
  close(out[1]);
  close(err[1]);
  deadline_ = Clock::now() + options.timeout;
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {out_, err_}) {
    if (fd >= 0) close(fd);
  }
}

void Process::send_signal(int number) const {
  kill(pid_, number);
}

void Process::wait_until_handled(int number) const {
  for (const auto give_up = Clock::now() + std::chrono::seconds(120); Clock::now() < give_up;) {
    if (handles_or_has_ended(pid_, number)) return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  throw std::runtime_error("the program does not handle signal " + std::to_string(number));
}

void Process::collect_output(ProcessResult& result) {
  std::array<pollfd, 2> streams = {pollfd{.fd = out_, .events = POLLIN, .revents = 0},
                                   pollfd{.fd = err_, .events = POLLIN, .revents = 0}};
  std::array<std::string*, 2> texts = {&result.out, &result.err};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    if (left <= 0) {
      result.timed_out = true;
      return;
    }
    if (poll(streams.data(), streams.size(), static_cast<int>(left)) <= 0) continue;
    for (std::size_t s = 0; s < streams.size(); ++s) {
      if (streams[s].fd >= 0 && streams[s].revents != 0 && !drain(streams[s].fd, *texts[s])) streams[s].fd = -1;
    }
  }
}

ProcessResult Process::wait() {
  ProcessResult result;
  collect_output(result);
  if (result.timed_out) kill(pid_, SIGKILL);
  int status = 0;
  rusage usage{};
  while (wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.peak_resident_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  return result;
}

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  return Process(argv, options).wait();
}

int exit_status_of(const std::function<int()>& body) {
  constexpr int kFailed = 125;
  const pid_t child = fork();
  check(child >= 0 ? 0 : errno, "fork");
  if (child == 0) {
    try {
      _exit(body());
    } catch (...) {
      _exit(kFailed);
    }
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) != kFailed ? WEXITSTATUS(status) : -1;
}

int exit_status_under_thread_limit(unsigned num_threads, const std::function<int()>& body) {
  return exit_status_of([&] {
    // The limit counts all processes of the user: one that no other process is likely to have, where that can be
    // chosen.
    constexpr unsigned kUser = 61234;
    const rlimit limit{.rlim_cur = num_threads, .rlim_max = num_threads};
    if (geteuid() == 0 && (setgid(kUser) != 0 || setuid(kUser) != 0)) throw std::runtime_error("setuid");
    if (setrlimit(RLIMIT_NPROC, &limit) != 0) throw std::runtime_error("setrlimit");
    return body();
  });
}

}  // namespace spmm::test
