#include "cli/program.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <limits>
#include <map>
#include <new>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/temporary_names.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/failure.hpp"
#include "cli/stop_request.hpp"
#include "spmm/error.hpp"
#include "spmm/options.hpp"

namespace spmm::cli {
namespace {

std::string program_name;  // once run_program() has begun

int fail(const std::string& program, int code, const std::string& message) {
  std::cerr << program << ": error: " << printable(message) << std::endl;
  return code;
}

/// The same without memory.
int fail_without_memory(const std::string& program) noexcept {
  constexpr std::string_view kMessage = ": error: out of memory; lower --memory-limit or --threads, or free memory\n";
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
    } catch (const cxxopts::exceptions::exception& e) {
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

timespec monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now;
}

static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers use it");
std::atomic<bool> cancelled{false};
StopRequest stop_request;

void on_stop_signal(int) {
  const int error = errno;
  const timespec now = monotonic_now();
  if (stop_request.is_repeated(std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000)) {
    remove_temporary_files();
    _exit(kInterrupted);
  }
  cancelled.store(true);
  errno = error;
}

/// A decimal number as written: digits * 10^exponent, and what follows it.
struct Decimal {
  std::uint64_t digits = 0;
  int exponent = 0;
  std::string rest;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Reads "12", "1_000", "1.5", "33e6"; nothing where the text does not start with such a number.
std::optional<Decimal> read_decimal(const std::string& text) {
  Decimal number;
  std::size_t at = 0;
  bool in_fraction = false;
  if (text.empty() || !is_digit(text[0])) return std::nullopt;
  for (; at < text.size(); ++at) {
    const bool digit_follows = at + 1 < text.size() && is_digit(text[at + 1]);
    if (text[at] == '_' && digit_follows) continue;
    if (text[at] == '.' && !in_fraction && digit_follows) {
      in_fraction = true;
      continue;
    }
    if (!is_digit(text[at])) break;
    const auto digit = static_cast<unsigned>(text[at] - '0');
    if (__builtin_mul_overflow(number.digits, std::uint64_t{10}, &number.digits) ||
        __builtin_add_overflow(number.digits, std::uint64_t{digit}, &number.digits)) {
      return std::nullopt;
    }
    number.exponent -= in_fraction ? 1 : 0;
  }
  if (at + 1 < text.size() && (text[at] == 'e' || text[at] == 'E') && is_digit(text[at + 1])) {
    int power = 0;
    const auto [end, error] = std::from_chars(text.data() + at + 1, text.data() + text.size(), power);
    if (error != std::errc{} || power > 1000) return std::nullopt;
    number.exponent += power;
    at = static_cast<std::size_t>(end - text.data());
  }
  number.rest = text.substr(at);
  return number;
}

/// digits * 10^exponent * unit; nothing where that is not a whole number or does not fit 64 bits.
std::optional<std::uint64_t> whole_value(const Decimal& number, std::uint64_t unit) {
  std::uint64_t value = 0;
  if (__builtin_mul_overflow(number.digits, unit, &value)) return std::nullopt;
  for (int e = number.exponent; e < 0 && value != 0; ++e) {
    if (value % 10 != 0) return std::nullopt;
    value /= 10;
  }
  for (int e = number.exponent; e > 0 && value != 0; --e) {
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value)) return std::nullopt;
  }
  return value;
}

/// Bytes of a unit ("", "k", "MiB", ...); nothing where it is unknown.
std::optional<std::uint64_t> unit_bytes(std::string unit) {
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  if (unit.empty()) return 1;
  const std::size_t power = std::string("kmgt").find(unit[0]);
  if (power == std::string::npos || unit.size() > 2 || (unit.size() == 2 && unit[1] != 'i')) return std::nullopt;
  std::uint64_t bytes = 1;
  for (std::size_t p = 0; p <= power; ++p) bytes *= unit.size() == 2 ? 1024 : 1000;
  return bytes;
}

/// cxxopts knows options of one letter with one dash only: "--n 5" becomes "-n 5", "--n=5" becomes "-n5".
std::vector<std::string> with_short_letters(int argc, const char* const* argv) {
  std::vector<std::string> words(argv, argv + argc);
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

}  // namespace

std::string printable(const std::string& message) {
  constexpr const char* kHex = "0123456789abcdef";
  std::string line;
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F) {
      line += c;
    } else {
      line += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return line;
}

int run_program(const std::string& program, const std::function<int()>& body) {
  program_name = program;
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
  return std::getenv("LD_PRELOAD") == nullptr && std::getenv("CUDA_INJECTION64_PATH") == nullptr;
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
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = on_stop_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

void check_cancelled(const std::string& program) {
  if (cancelled.load(std::memory_order_relaxed)) {
    throw Interrupted(program, "interrupted", "nothing was written, it is safe to run it again");
  }
}

std::uint64_t parse_bytes(const std::string& text, const std::string& where) {
  const auto refuse = [&] {
    return UsageError(where, quoted(text) + " is not a number of bytes", "write it like 8G, 512M, 2GiB or 1e9");
  };
  const auto number = read_decimal(text);
  if (!number) throw refuse();
  const auto unit = unit_bytes(number->rest);
  if (!unit) throw refuse();
  const auto value = whole_value(*number, *unit);
  if (!value) throw refuse();
  return *value;
}

std::uint64_t parse_count(const std::string& text, const std::string& where, std::uint64_t low, std::uint64_t high) {
  const auto number = read_decimal(text);
  const auto value = number && number->rest.empty() ? whole_value(*number, 1) : std::nullopt;
  if (!value) {
    throw UsageError(where, quoted(text) + " is not a whole number", "write it like 33000000, 33e6 or 33_000_000");
  }
  if (*value < low || *value > high) {
    throw UsageError(where, spmm::text(*value, " is out of range"),
                     high == UINT64_MAX ? spmm::text("give ", low, " or more")
                                        : spmm::text("give a number from ", low, " to ", high));
  }
  return *value;
}

std::vector<int> parse_devices(const std::string& text, const std::string& where) {
  constexpr std::uint64_t kMaxDevice = 1023;
  if (text == "auto") return {};
  if (text == "all") return {kAllDevices};
  std::vector<int> devices;
  std::istringstream numbers(text + ",");
  for (std::string number; std::getline(numbers, number, ',');) {
    devices.push_back(static_cast<int>(parse_count(number, where, 0, kMaxDevice)));
  }
  return devices;
}

double parse_fraction(const std::string& text, const std::string& where) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= 0 && value <= 1)) {
    throw UsageError(where, quoted(text) + " is not a fraction", "give a number from 0 to 1");
  }
  return value;
}

cxxopts::ParseResult parse_strictly(cxxopts::Options& options, int argc, const char* const* argv) {
  const std::string hint = "see " + options.program() + " --help";
  // cxxopts matches every argument with std::regex, whose recursion a long one would overflow.
  constexpr std::size_t kMaxArgument = 4096;
  for (int a = 1; a < argc; ++a) {
    const std::size_t length = std::char_traits<char>::length(argv[a]);
    if (length > kMaxArgument) {
      throw UsageError("command line",
                       text("argument ", a, " has ", length, " characters, expected at most ", kMaxArgument),
                       "shorten it");
    }
  }
  const std::vector<std::string> words = with_short_letters(argc, argv);
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  auto parsed = options.parse(argc, pointers.data());
  if (!parsed.unmatched().empty()) {
    throw UsageError("command line", "unexpected argument " + quoted(parsed.unmatched().front()), hint);
  }
  std::map<std::string, int> times;
  for (const auto& argument : parsed.arguments()) {
    if (++times[argument.key()] > 1) throw UsageError("--" + argument.key(), "is given more than once", hint);
  }
  return parsed;
}

std::string environment_name(const std::string& option) {
  std::string name = "SPMM_";
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::optional<OptionText> option_text(const cxxopts::ParseResult& parsed, const std::string& option) {
  const std::string typed = "--" + option;
  if (parsed.count(option) > 0) return OptionText{.value = parsed[option].as<std::string>(), .where = typed};
  const std::string name = environment_name(option);
  const char* value = std::getenv(name.c_str());
  if (value != nullptr && *value != '\0') return OptionText{.value = value, .where = name + " (environment)"};
  if (parsed[option].has_default()) return OptionText{.value = parsed[option].as<std::string>(), .where = typed};
  return std::nullopt;
}

bool option_flag(const cxxopts::ParseResult& parsed, const std::string& option) {
  if (parsed.count(option) > 0) return parsed[option].as<bool>();
  const std::string name = environment_name(option);
  const char* found = std::getenv(name.c_str());
  const std::string value = found == nullptr ? "" : found;
  for (const char* on : {"1", "true", "yes", "on"}) {
    if (value == on) return true;
  }
  for (const char* off : {"", "0", "false", "no", "off"}) {
    if (value == off) return false;
  }
  throw UsageError(name + " (environment)", quoted(value) + " is neither on nor off", "set it to 1 or 0, or unset it");
}

std::optional<std::uint64_t> option_bytes(const cxxopts::ParseResult& parsed, const std::string& option) {
  const auto found = option_text(parsed, option);
  if (!found) return std::nullopt;
  return parse_bytes(found->value, found->where);
}

std::optional<std::uint64_t> option_count(const cxxopts::ParseResult& parsed, const std::string& option,
                                          std::uint64_t low, std::uint64_t high) {
  const auto found = option_text(parsed, option);
  if (!found) return std::nullopt;
  return parse_count(found->value, found->where, low, high);
}

std::size_t option_choice(const cxxopts::ParseResult& parsed, const std::string& option,
                          const std::vector<std::string>& choices) {
  const auto found = option_text(parsed, option);
  if (!found) return 0;
  std::string list;
  for (std::size_t c = 0; c < choices.size(); ++c) {
    if (found->value == choices[c]) return c;
    list += (c == 0 ? "" : c + 1 == choices.size() ? " or " : ", ") + choices[c];
  }
  throw UsageError(found->where, quoted(found->value) + " is not known", "give " + list);
}

std::string required_positional(const cxxopts::ParseResult& parsed, const std::string& name, const std::string& what) {
  if (parsed.count(name) > 0 && !parsed[name].as<std::string>().empty()) return parsed[name].as<std::string>();
  throw UsageError("command line", "the " + what + " is missing", "give its path; --help shows examples");
}

}  // namespace spmm::cli
