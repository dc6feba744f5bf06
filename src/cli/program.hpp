// What every program of the project shares: exit codes from exceptions, signals, help and version.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <optional>
#include <string>

#include "cli/options.hpp"

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

/// One line "PROGRAM: warning: ..." on standard error.
void warn(const std::string& program, const std::string& message);

/// One line "PROGRAM: ..." on standard error.
void note(const std::string& program, const std::string& message);

/// Turns warnings off: several processes would say the same.
void silence_warnings();

/// Adds --version and --help.
void add_common_options(OptionTable& options, const std::string& group = "");

/// What --help or --version asks for; nothing if none is given.
/// Values: notes = what follows the options in --help.
std::optional<std::string> requested_text(const ParsedOptions& parsed, const OptionTable& options,
                                          const std::string& notes);

/// A program with options, for its main().
struct Program {
  const char* name;
  OptionTable (*options)();
  const char* notes;  ///< what follows the options in --help
};

/// Runs body with the options as typed, or prints help or version. Signals ask for a clean end; failures
/// become messages. Returns the exit code.
int run_program(const Program& program, int argc, const char* const* argv,
                const std::function<int(const ParsedOptions& parsed)>& body);

}  // namespace spmm::cli
