// What an exception means to a user: one table for all programs.
#pragma once

#include <string>

namespace spmm::cli {

struct Failure {
  int exit_code = 0;  ///< of exit_codes.hpp
  std::string message;
};

/// Of the exception that is being handled; out of memory if there is none for its message.
Failure failure_of_current_exception() noexcept;

}  // namespace spmm::cli
