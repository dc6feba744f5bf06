// The body of a program: exit codes, signals, standard streams, help made of the table of options, version.
#include "cli/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <limits>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/temporary_names.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {
namespace {

std::string program_name;  // once run_program() has begun

/// Without memory.
int fail_without_memory(const std::string& program) noexcept {
  constexpr std::string_view kMessage =
      ": error: out of memory; lower --memory-limit or --threads if the program has them, or free memory\n";
  for (const std::string_view words : {std::string_view(program), kMessage}) {
    [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, words.data(), words.size());
  }
  return kMemory;
}

/// Exit code of the exception that is being handled, with its message printed.
int fail_with_current_exception(const std::string& program) noexcept {
  try {
    const Failure failure = failure_of_current_exception();
    std::cerr << program << ": error: " << printable(failure.message) << std::endl;
    return failure.exit_code;
  } catch (...) {
    return fail_without_memory(program);
  }
}

/// Exceptions that come out where none may: JSON values allocate in their destructors. The message and the exit code
/// are those of any other failure; nothing is left behind.
[[noreturn]] void end_without_unwinding() noexcept {
  // A temporary name may be on its way on this very thread: not longer than so.
  constexpr unsigned kSeconds = 10;
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  signal(SIGALRM, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  ::alarm(kSeconds);
  int code = kInternal;
  if (std::current_exception()) code = fail_with_current_exception(program_name);
  remove_temporary_files();
  ::_exit(code);
}

std::atomic<bool> warnings_are_silent{false};

static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers use it");
std::atomic<bool> cancelled{false};
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "signal handlers use it");
std::atomic<std::int64_t> first_signal_ms{kNever};  // one atomic: a handler on another thread sees all or nothing

/// Whether a signal at now_ms comes after an earlier one that was not part of the same request. Signals that arrive
/// together (timeout(1) signals the program and its group) count as one.
bool is_repeated(std::int64_t now_ms) {
  constexpr std::int64_t kSameRequestMs = 300;
  std::int64_t first_ms = kNever;
  return !first_signal_ms.compare_exchange_strong(first_ms, now_ms) && now_ms - first_ms > kSameRequestMs;
}

/// What the first signal leaves to the program to stop by itself: a kernel on a GPU, a library or a system call may not
/// look at cancel_flag() for minutes. The rest of 2 s is for the end itself.
constexpr unsigned kPatienceSeconds = 1;

void on_stop_signal(int) {
  const int error = errno;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (is_repeated(std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000) && try_remove_temporary_files())
    _exit(kInterrupted);
  if (!cancelled.exchange(true)) ::alarm(kPatienceSeconds);
  errno = error;
}

void on_end_of_patience(int) {
  constexpr std::string_view kMessage =
      ": error: interrupted; an output is the old one or complete, it is safe to run it again\n";
  const int error = errno;
  if (!try_remove_temporary_files()) {  // the output is about to appear, and the exit code is that of the product
    ::alarm(kPatienceSeconds);
    errno = error;
    return;
  }
  for (const std::string_view words : {std::string_view(program_invocation_short_name), kMessage}) {
    pollfd to{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (::poll(&to, 1, 0) <= 0) break;  // a pipe without a reader
    [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, words.data(), words.size());
  }
  _exit(kInterrupted);
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

constexpr std::size_t kWidth = 119;
constexpr std::size_t kWidestOption = 30;

/// Lines of at most kWidth characters, of which the first begins at `indent` and the others are indented.
std::string wrapped(std::string plain, std::size_t indent) {
  std::string out;
  while (indent + plain.size() > kWidth) {
    const std::size_t space = plain.rfind(' ', kWidth - indent);
    if (space == std::string::npos) break;
    out += plain.substr(0, space) + "\n" + std::string(indent, ' ');
    plain.erase(0, space + 1);
  }
  return out + plain + "\n";
}

/// "  -q, --quiet", padded to where the descriptions begin.
std::string option_line(const OptionDetails& option, std::size_t column) {
  std::string line = option.letter.empty() && option.name.size() > 1 ? "      " : "  ";
  if (!option.letter.empty()) line += "-" + option.letter + ", ";
  line += option.typed() + (option.is_switch() ? "" : " " + option.argument);
  if (column == 0) return line;
  if (line.size() + 2 > column) return line + "\n" + std::string(column, ' ');
  return line + std::string(column - line.size(), ' ');
}

/// The heading of an option, if it begins a group.
std::string group_heading(const std::vector<OptionDetails>& options, std::size_t index) {
  const std::string& group = options[index].group;
  if (index > 0 && options[index - 1].group == group) return "";
  return group.empty() ? "Options" : group;
}

/// What --help prints. Values: notes = what follows the options.
std::string help_page(const ProgramPage& about, const std::string& notes) {
  std::string page = text(about.description, "\nUsage: ", about.program, " ", about.arguments, "\n");
  if (!about.other_form.empty()) page += text("   or: ", about.other_form, " ", about.arguments, "\n");
  const std::vector<OptionDetails>& options = about.options;
  std::size_t column = 0;
  for (const OptionDetails& option : options) {
    const std::size_t size = option_line(option, 0).size() + 2;
    if (size <= kWidestOption) column = std::max(column, size);
  }
  for (std::size_t o = 0; o < options.size(); ++o) {
    const std::string heading = group_heading(options, o);
    if (!heading.empty()) page += "\n" + heading + ":\n";
    const std::string otherwise = options[o].otherwise ? " (default: " + *options[o].otherwise + ")" : "";
    page += option_line(options[o], column) + wrapped(options[o].description + otherwise, column);
  }
  std::string list;
  if (!about.subcommands.empty())
    list = "\nSubcommands, as spmm gen; spmm help NAME shows the options of one, ./NAME is a file:\n";
  for (const SubcommandName& one : about.subcommands) {
    list += text("  ", one.word, std::string(10 - std::min<std::size_t>(9, one.word.size()), ' '), one.summary, "\n");
  }
  return page + list + notes;
}

}  // namespace

void warn(const std::string& program, const std::string& message) {
  if (warnings_are_silent.load()) return;
  std::cerr << text(program, ": warning: ", printable(message), "\n") << std::flush;
}

void note(const std::string& program, const std::string& message) {
  std::cerr << text(program, ": ", printable(message), "\n") << std::flush;
}

void silence_warnings() {
  warnings_are_silent.store(true);
}

void open_standard_streams() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    const bool is_closed = ::fcntl(fd, F_GETFD) == -1 && errno == EBADF;
    const int way = fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY;
    if (is_closed && ::open("/dev/null", way) != fd) ::_exit(kIoError);  // there is no stream for a message
  }
}

void print_answer(const std::string& answer) {
  errno = 0;
  std::cout << answer << std::flush;
  if (errno == EPIPE) std::cout.clear();
}

int run_program(const std::string& program, const std::function<int()>& body) {
  program_name = program;
  open_standard_streams();
  signal(SIGPIPE, SIG_IGN);
  std::set_terminate(end_without_unwinding);
  try {
    const int code = body();
    std::cout.flush();
    if (!std::cout) throw IoError("standard output", "writing failed", "check where the output of the program goes");
    return code;
  } catch (...) {
    return fail_with_current_exception(program);
  }
}

std::atomic<bool>& cancel_flag() {
  return cancelled;
}

bool ends_at_once() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return std::getenv("CUDA_INJECTION64_PATH") == nullptr;
#endif
}

void end_process(int code) {
  if (!ends_at_once()) std::exit(code);
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

void install_signal_handlers() {
  for (const int number : kStopSignals) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_DFL) handle(number, on_stop_signal);
  }
  handle(SIGALRM, on_end_of_patience);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

void check_cancelled(const std::string& program) {
  if (cancelled.load(std::memory_order_relaxed)) {
    throw Interrupted(program, "interrupted", "nothing was written, it is safe to run it again");
  }
}

void add_common_options(OptionTable& options, const std::string& group) {
  options.add_options(group)("version", "print version, git revision, CUDA version, architectures and backends")(
      "h,help", "print this");
  options.add_options("hidden")("help-all", "");
}

std::optional<std::string> requested_text(const ParsedOptions& parsed, const OptionTable& options,
                                          const std::string& notes) {
  if (parsed.count("help") + parsed.count("help-all") > 0) return help_page(options.page(), notes);
  if (parsed.count("version") > 0) return version_string() + "\n";
  return std::nullopt;
}

int run_program(const Program& program, int argc, const char* const* argv,
                const std::function<int(const ParsedOptions& parsed)>& body) {
  install_signal_handlers();
  return run_program(program.name, [&]() -> int {
    OptionTable options = program.options();
    const auto parsed = options.parse(argc, argv);
    const auto answer = requested_text(parsed, options, program.notes);
    if (!answer) return body(parsed);
    print_answer(*answer);
    return kOk;
  });
}

}  // namespace spmm::cli
