// Exit codes and messages of exceptions.
#include "cli/exit_codes.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "spmm/error.hpp"

namespace spmm::cli {
namespace {

/// Fields that have another name on the command line.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"num_threads", "threads"},
    {"max_threads", "threads"},
    {"memory_limit_bytes", "memory-limit"},
    {"verify_blocks", "verify"},
    {"verify_full", "verify full"},
    {"proof_key", "verify-seed"},
    {"selection", "triangle, --no-diagonal, --at-least, --keep"}};

/// By ErrorKind.
constexpr ExitCode kExitCodes[] = {kOk,      kOk,     kUsage,       kBadData,  kBadData,     kNoInput,  kCannotCreate,
                                   kIoError, kMemory, kUnavailable, kNegative, kInterrupted, kSaturated};

Failure described_failure() {
  const auto failed = [](int code, const std::exception& e) {
    return Failure{.exit_code = code, .message = command_line_words(e.what())};
  };
  try {
    throw;
  } catch (const Error& e) {
    return failed(kExitCodes[static_cast<int>(e.kind())], e);
  } catch (const std::system_error& e) {
    if (e.code() != std::errc::resource_unavailable_try_again) return failed(kInternal, e);
    return {.exit_code = kMemory,
            .message =
                "a thread cannot be started; lower --threads, or raise the limit of processes (ulimit -u, pids.max)"};
  } catch (const std::bad_alloc&) {
    return {.exit_code = kMemory,
            .message = "out of memory; lower --memory-limit or --threads if the program has them, or free memory"};
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

std::string command_line_words(std::string_view message) {
  std::string out;
  while (true) {
    const std::size_t begin = std::min(message.find("EngineOptions::"), message.find("ProductOptions::"));
    if (begin == std::string_view::npos) return out.append(message);
    const std::size_t field = message.find("::", begin) + 2;
    const std::size_t end = std::min(message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", field), message.size());
    std::string name(message.substr(field, end - field));
    for (const auto& [library, typed] : kRenamed) {
      if (name == library) name = typed;
    }
    std::replace(name.begin(), name.end(), '_', '-');
    out.append(message.substr(0, begin)).append("--").append(name);
    message.remove_prefix(end);
    if (message.starts_with(" = true")) {  // --force
      message.remove_prefix(7);
    } else if (message.starts_with(" = ")) {  // --backend cpu
      message.remove_prefix(2);
    }
  }
}

}  // namespace spmm::cli
