// The body of a program: exit codes, signals, standard streams, options as typed.
#include "cli/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
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
#include "cli/failure.hpp"
#include "cli/options/did_you_mean.hpp"
#include "cli/options/table.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {
namespace {

std::string program_name;  // once run_program() has begun

int fail(const std::string& program, int code, const std::string& message) {
  std::cerr << program << ": error: " << printable(message) << std::endl;
  return code;
}

/// The same without memory.
int fail_without_memory(const std::string& program) noexcept {
  constexpr std::string_view kMessage = ": error: out of memory; lower --memory-limit or --threads if the program has them, or free memory\n";
  for (const std::string_view words : {std::string_view(program), kMessage}) {
    [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, words.data(), words.size());
  }
  return kMemory;
}

/// Exit code of the exception that is being handled, with its message printed.
int fail_with_current_exception(const std::string& program) noexcept {
  try {
    try {
      throw;
    } catch (const OptionError& e) {
      return fail(program, kUsage, text(e.what(), "; see ", program, " --help"));
    } catch (...) {
      const Failure failure = failure_of_current_exception();
      return fail(program, failure.exit_code, failure.message);
    }
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

/// The parser knows options of one letter with one dash only: "--n 5" becomes "-n 5", "--n=5" becomes "-n5".
std::vector<std::string> with_short_letters(int argc, const char* const* argv) {
  std::vector<std::string> words(argv, argv + argc);
  // "spmm help", unless a file has that name.
  if (argc == 2 && words[1] == "help" && ::access("help", F_OK) != 0) words[1] = "--help";
  if (argc == 3 && words[1] == "--help" && words[2] == "all") words = {words[0], "--help-all"};
  for (std::size_t w = 1; w < words.size() && words[w] != "--"; ++w) {
    std::string& word = words[w];
    const bool one_letter = word.size() >= 3 && word.compare(0, 2, "--") == 0 && (word.size() == 3 || word[3] == '=');
    if (!one_letter || std::isalpha(static_cast<unsigned char>(word[2])) == 0) continue;
    if (word.size() == 4) throw UsageError(word.substr(0, 3), "has an empty value", "give a value after the =");
    if (word.size() > 4) word.erase(3, 1);
    word.erase(0, 1);
  }
  return words;
}

std::string quoted(const std::string& value) {
  return "\"" + value + "\"";
}

/// Options that are read from SPMM_BACKEND, SPMM_THREADS and SPMM_MEMORY_LIMIT if they are not typed.
bool is_variable(const std::string& option) {
  return option == "backend" || option == "threads" || option == "memory-limit";
}

/// "SPMM_MEMORY_LIMIT" for "memory-limit".
std::string variable_name(const std::string& option) {
  std::string name = "SPMM_";
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
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
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SPMM_COVERAGE)
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

ParsedOptions parse_strictly(OptionTable& options, int argc, const char* const* argv) {
  const std::string hint = "see " + options.page().program + " --help";
  const std::vector<std::string> words = with_short_letters(argc, argv);
  ParsedOptions parsed;
  try {
    parsed = options.parse(words);
  } catch (const UnknownOption& error) {
    const std::string typed = error.what();
    const std::size_t dashes = std::min(typed.find_first_not_of('-'), typed.size());  // "---" has nothing else
    std::vector<std::string> names;
    for (const OptionDetails& option : options.page().options) names.push_back(option.name);
    const std::string meant = suggestion(typed.substr(dashes), names, "--");
    if (!meant.empty()) throw UsageError(typed, "is not an option" + meant, hint);
    throw UsageError(typed, "is not an option",
                     text("write ", options.page().program, " ", options.page().arguments, "; ", hint));
  }
  if (!parsed.unexpected().empty()) {
    throw UsageError("command line", "unexpected argument " + quoted(parsed.unexpected()), hint);
  }
  if (!parsed.repeated().empty()) throw UsageError("--" + parsed.repeated(), "is given more than once", hint);
  for (const OptionDetails& option : options.page().options) {
    const std::string variable = variable_name(option.name);
    const char* const value = is_variable(option.name) ? nullptr : std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    warn(options.page().program, text("the variable ", variable, " has no effect, give ", option.typed()));
  }
  return parsed;
}

std::optional<OptionText> option_text(const ParsedOptions& parsed, const std::string& option) {
  const std::string typed = "--" + option;
  if (parsed.count(option) > 0) return OptionText{.value = parsed.text(option), .where = typed};
  const std::string name = variable_name(option);
  const char* value = is_variable(option) ? std::getenv(name.c_str()) : nullptr;
  if (value != nullptr && *value != '\0') return OptionText{.value = value, .where = name + " (environment)"};
  if (parsed.has_text(option)) return OptionText{.value = parsed.text(option), .where = typed};
  return std::nullopt;
}

bool option_flag(const ParsedOptions& parsed, const std::string& option) {
  return parsed.count(option) > 0 && parsed.text(option) == "1";
}

std::optional<std::uint64_t> option_bytes(const ParsedOptions& parsed, const std::string& option) {
  const auto found = option_text(parsed, option);
  if (!found) return std::nullopt;
  return parse_bytes(found->value, found->where);
}

std::optional<std::uint64_t> option_count(const ParsedOptions& parsed, const std::string& option, std::uint64_t low,
                                          std::uint64_t high) {
  const auto found = option_text(parsed, option);
  if (!found) return std::nullopt;
  return parse_count(found->value, found->where, low, high);
}

std::size_t parse_choice(const std::string& text, const std::string& where, const std::vector<std::string>& choices) {
  std::string list;
  for (std::size_t c = 0; c < choices.size(); ++c) {
    if (text == choices[c]) return c;
    list += (c == 0 ? "" : c + 1 == choices.size() ? " or " : ", ") + choices[c];
  }
  throw UsageError(where, quoted(text) + " is not known" + suggestion(text, choices), "give " + list);
}

std::size_t option_choice(const ParsedOptions& parsed, const std::string& option,
                          const std::vector<std::string>& choices) {
  const auto found = option_text(parsed, option);
  return found ? parse_choice(found->value, found->where, choices) : 0;
}

Backend backend_option(const ParsedOptions& parsed) {
  constexpr std::array kBackends = {Backend::automatic, Backend::cuda, Backend::cpu};
  const Backend backend = kBackends[option_choice(parsed, "backend", {"auto", "cuda", "cpu"})];
  if (backend == Backend::cuda && !has_backend(backend)) {
    throw DeviceError(
        option_text(parsed, "backend")->where, "is cuda, but this program was built without CUDA",
        "install CUDA 12 or newer and build it again (bash tools/scripts/demo.sh --cuda), or give --backend cpu");
  }
  return backend;
}

std::string required_positional(const ParsedOptions& parsed, const std::string& name, const std::string& what,
                                Dash dash) {
  if (parsed.count(name) > 0 && !parsed.text(name).empty()) {
    const std::string path = parsed.text(name);
    if (path != "-" || dash == Dash::allowed) return path;
    if (dash == Dash::refused_input) {
      throw UsageError("command line",
                       "the " + what + " is -, but standard input will not do: it is read by position, more than once",
                       "store it in a file first (cat > /dev/shm/a.bin), or give ./- for a file of that name");
    }
    throw UsageError("command line",
                     "the " + what + " is -, but standard output will not do: the header is written last",
                     "name a file (/dev/shm/c.bin, then cat it), or give ./- for a file of that name");
  }
  throw UsageError("command line", "the " + what + " is missing", "give its path; --help shows examples");
}

}  // namespace spmm::cli
