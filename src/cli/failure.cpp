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

Failure described_failure() {
  const auto failed = [](int code, const std::exception& e) {
    return Failure{.exit_code = code, .message = command_line_words(e.what())};
  };
  try {
    throw;
  } catch (const UsageError& e) {
    return failed(kUsage, e);
  } catch (const FormatError& e) {
    return failed(kBadData, e);
  } catch (const ShapeError& e) {
    return failed(kBadData, e);
  } catch (const InputError& e) {
    return failed(kNoInput, e);
  } catch (const DeviceError& e) {
    return failed(kUnavailable, e);
  } catch (const OutOfMemory& e) {
    return failed(kMemory, e);
  } catch (const OutputError& e) {
    return failed(kCannotCreate, e);
  } catch (const IoError& e) {
    return failed(kIoError, e);
  } catch (const Interrupted& e) {
    return failed(kInterrupted, e);
  } catch (const SaturationError& e) {
    return failed(kSaturated, e);
  } catch (const VerifyError& e) {
    return failed(kNegative, e);
  } catch (const std::system_error& e) {
    if (e.code() != std::errc::resource_unavailable_try_again) return failed(kInternal, e);
    return {.exit_code = kMemory,
            .message =
                "a thread cannot be started; lower --threads, or raise the limit of processes (ulimit -u, pids.max)"};
  } catch (const std::bad_alloc&) {
    return {.exit_code = kMemory, .message = "out of memory; lower --memory-limit or --threads, or free memory"};
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
