// What every program of the project shares: exit codes from exceptions, signals, numbers and options as typed.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/table.hpp"
#include "spmm/options.hpp"
#include "spmm/types.hpp"

namespace spmm::cli {

/// Runs the program's body. Standard streams that are closed lead to /dev/null. A failure becomes one line "PROGRAM:
/// error: ..." on standard error and the exit code of exit_codes.hpp; standard output that could not be written is a
/// failure as well.
int run_program(const std::string& program, const std::function<int()>& body);

/// Writes help, a version or a list to standard output. Whoever reads it may close it before the end (head -1).
void print_answer(const std::string& answer);

/// Opens standard streams that are closed on /dev/null: a file that is opened later would become one of them, and
/// messages would be written into it. Reading or writing there fails, but for messages on standard error.
void open_standard_streams() noexcept;

/// Whether this process may end with nothing taken apart: the system takes back memory, pinned pages and the device's
/// context in one go. Not where a sanitizer, gcov or a tool of NVIDIA's watches: they write what they have found at a
/// usual end. Such tools name the library that the driver loads for them in CUDA_INJECTION64_PATH.
bool ends_at_once();

/// Ends the process, at once where it may. Standard streams are flushed, temporary files must be gone.
[[noreturn]] void end_process(int code);

/// Signals that end a process which does not handle them, but for SIGALRM, SIGPIPE, SIGXFSZ and those of faults.
inline constexpr int kStopSignals[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT,   SIGUSR1, SIGUSR2,
                                       SIGXCPU, SIGIO,   SIGPWR, SIGVTALRM, SIGPROF, SIGSTKFLT};

/// Set by the first of kStopSignals; long work looks at it now and then.
std::atomic<bool>& cancel_flag();

/// The first signal asks for a clean end (cancel_flag). A second later, or by another signal, temporary files are
/// removed and the process ends with kInterrupted. If an output is being given its name just then, the process goes on,
/// so that its exit code is that of the product; it has another second then. Signals ignored by the parent (nohup) stay
/// ignored, and a profiler keeps its handlers. A closed pipe or a file size limit becomes an error of write().
void install_signal_handlers();

/// Errors: Interrupted once cancel_flag() is set.
void check_cancelled(const std::string& program);

/// Bytes from "8G", "512M", "2GiB", "1.5T", "1e9": k M G T = powers of 1000, Ki Mi Gi Ti = powers of 1024, B optional.
/// Errors: UsageError that names `where` (the option).
std::uint64_t parse_bytes(const std::string& text, const std::string& where = "size");

/// A whole number: "33000000", "33e6", "1_000_000". Errors: UsageError, also outside [low, high].
std::uint64_t parse_count(const std::string& text, const std::string& where = "count", std::uint64_t low = 0,
                          std::uint64_t high = UINT64_MAX);

/// parse_verify() of "full".
inline constexpr std::uint64_t kVerifyFull = 0xFFFF'FFFF'FFFF'FFFFu;

/// What --verify asks for: a number of blocks, or "full". Errors: UsageError.
std::uint64_t parse_verify(const std::string& text, const std::string& where);

/// CUDA devices from "0,1" or "all" (kAllDevices); none from "auto". Errors: UsageError.
std::vector<int> parse_devices(const std::string& text, const std::string& where);

/// Block rows from "FIRST:END"; what is left out is the first or the last row. Errors: UsageError.
RowRange parse_rows(const std::string& text, const std::string& where);

/// A number from 0 to 1. Errors: UsageError.
double parse_fraction(const std::string& text, const std::string& where = "fraction");

/// One line "PROGRAM: warning: ..." on standard error.
void warn(const std::string& program, const std::string& message);

/// One line "PROGRAM: ..." on standard error.
void note(const std::string& program, const std::string& message);

/// Turns warnings off: several processes would say the same.
void silence_warnings();

/// Options::parse() that refuses what it lets pass: more positionals than declared, an option given twice. A misspelt
/// option is reported with the one that may be meant. Variables that were options once (SPMM_KERNEL) get a warning.
/// Errors: UsageError, OptionError.
ParsedOptions parse_strictly(OptionTable& options, int argc, const char* const* argv);

/// The value of an option, and what messages call it.
struct OptionText {
  std::string value;
  std::string where;  ///< "--memory-limit", or "SPMM_MEMORY_LIMIT (environment)"
};

/// Value of an option: as typed, else for --backend, --threads and --memory-limit from the environment (SPMM_THREADS),
/// else its default.
std::optional<OptionText> option_text(const ParsedOptions& parsed, const std::string& option);

/// Whether a switch is on.
bool option_flag(const ParsedOptions& parsed, const std::string& option);

/// Numbers by option_text(); nothing if the option is not given and has no default. Errors: UsageError.
std::optional<std::uint64_t> option_bytes(const ParsedOptions& parsed, const std::string& option);
std::optional<std::uint64_t> option_count(const ParsedOptions& parsed, const std::string& option, std::uint64_t low = 0,
                                          std::uint64_t high = UINT64_MAX);

/// Position of a value in `choices`. Errors: UsageError that lists the choices.
std::size_t parse_choice(const std::string& text, const std::string& where, const std::vector<std::string>& choices);

/// Position of the option's value in `choices`; 0 if it is not given. Errors: UsageError that lists the choices.
std::size_t option_choice(const ParsedOptions& parsed, const std::string& option,
                          const std::vector<std::string>& choices);

/// --backend. Errors: UsageError, DeviceError if it is cuda and this build has none.
Backend backend_option(const ParsedOptions& parsed);

/// Whether "-" stands for a standard stream.
enum class Dash : std::uint8_t { refused_input, refused_output, allowed };

/// A positional that must be there. `what` says what it is ("output file"). Errors: UsageError, also for "-" where the
/// program must read or write at places that it chooses.
std::string required_positional(const ParsedOptions& parsed, const std::string& name, const std::string& what,
                                Dash dash = Dash::refused_input);

}  // namespace spmm::cli
