#include "tools/batch/batch_failure.hpp"

#include <exception>
#include <new>

#include "cli/exit_codes.hpp"
#include "spmm/error.hpp"

namespace spmm::batch {

Failure failure_of_current_exception() {
  const auto failed = [](int code, const std::exception& e) { return Failure{.exit_code = code, .message = e.what()}; };
  try {
    throw;
  } catch (const UsageError& e) {
    return failed(cli::kUsage, e);
  } catch (const FormatError& e) {
    return failed(cli::kBadData, e);
  } catch (const ShapeError& e) {
    return failed(cli::kBadData, e);
  } catch (const InputError& e) {
    return failed(cli::kNoInput, e);
  } catch (const DeviceError& e) {
    return failed(cli::kUnavailable, e);
  } catch (const OutOfMemory& e) {
    return failed(cli::kMemory, e);
  } catch (const OutputError& e) {
    return failed(cli::kCannotCreate, e);
  } catch (const IoError& e) {
    return failed(cli::kIoError, e);
  } catch (const Interrupted& e) {
    return failed(cli::kInterrupted, e);
  } catch (const VerifyError& e) {
    return failed(cli::kNegative, e);
  } catch (const std::bad_alloc&) {
    return {.exit_code = cli::kMemory, .message = "out of memory; lower --memory-limit, or free memory"};
  } catch (const std::exception& e) {
    return failed(cli::kInternal, e);
  } catch (...) {
    return {.exit_code = cli::kInternal, .message = "unknown exception"};
  }
}

bool may_pass(int exit_code) {
  return exit_code == cli::kUnavailable || exit_code == cli::kInternal || exit_code == cli::kMemory ||
         exit_code == cli::kIoError || exit_code == cli::kInterrupted;
}

bool breaks_worker(int exit_code) {
  return exit_code == cli::kUnavailable || exit_code == cli::kInternal;
}

}  // namespace spmm::batch
