// Exit codes and messages of exceptions.
#include "cli/failure.hpp"

#include <exception>
#include <new>
#include <system_error>

#include "cli/exit_codes.hpp"
#include "cli/options/words.hpp"
#include "spmm/error.hpp"

namespace spmm::cli {
namespace {

/// A class of errors.
struct Kind {
  bool (*is)(const Error& e);
  ExitCode exit_code;
};

template <class Class>
bool is(const Error& e) {
  return dynamic_cast<const Class*>(&e) != nullptr;
}

constexpr Kind kKinds[] = {
    {is<UsageError>, kUsage},          {is<FormatError>, kBadData},     {is<ShapeError>, kBadData},
    {is<InputError>, kNoInput},        {is<DeviceError>, kUnavailable}, {is<OutOfMemory>, kMemory},
    {is<OutputError>, kCannotCreate},  {is<IoError>, kIoError},         {is<Interrupted>, kInterrupted},
    {is<SaturationError>, kSaturated}, {is<VerifyError>, kNegative}};

Failure described_failure() {
  const auto failed = [](int code, const std::exception& e) {
    return Failure{.exit_code = code, .message = command_line_words(e.what())};
  };
  try {
    throw;
  } catch (const Error& e) {
    for (const Kind& kind : kKinds) {
      if (kind.is(e)) return failed(kind.exit_code, e);
    }
    return failed(kInternal, e);
  } catch (const std::system_error& e) {
    if (e.code() != std::errc::resource_unavailable_try_again) return failed(kInternal, e);
    return {.exit_code = kMemory,
            .message =
                "a thread cannot be started; lower --threads, or raise the limit of processes (ulimit -u, pids.max)"};
  } catch (const std::bad_alloc&) {
    return {.exit_code = kMemory, .message = "out of memory; lower --memory-limit or --threads if the program has them, or free memory"};
  } catch (const std::exception& e) {
    return failed(kInternal, e);
  } catch (...) {
    return {.exit_code = kInternal, .message = "unknown exception"};
  }
}

}  // namespace

Failure failure_of_current_exception() noexcept {
  try {
    return described_failure();
  } catch (...) {
    return {.exit_code = kMemory, .message = "out of memory"};  // short enough for a string without memory of its own
  }
}

}  // namespace spmm::cli
