// What can go wrong. Every error names the place, what was found and what to do about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace spmm {

/// What an error means to the caller. The values are those of spmm_status.
enum class ErrorKind : std::uint8_t {
  usage = 2,    ///< options that cannot be carried out together (unknown kernel, output equal to an input, ...)
  shape,        ///< A and B do not fit each other (different n or m)
  format,       ///< a file, or a matrix in memory, breaks the format
  input,        ///< an input cannot be opened
  output,       ///< the output cannot be created
  io,           ///< reading or writing failed on the way (ENOSPC, EIO, ...)
  memory,       ///< work does not fit the memory or a stated limit
  device,       ///< the backend or device that was asked for is not available
  verify,       ///< --verify found a wrong row of the result
  interrupted,  ///< the run was cancelled; nothing was written, it is safe to run it again
  saturated,    ///< elements of the result are 2^32 - 1 and OnSaturation::error was asked for; nothing was written
};

/// Base of all errors thrown on purpose. what() reads "<where>: <problem>; <hint>".
class Error : public std::runtime_error {
 public:
  /// The place, what was found there, and what to do.
  Error(ErrorKind kind, const std::string& where, const std::string& problem, const std::string& hint)
      : std::runtime_error(where + ": " + problem + "; " + hint),
        kind_(kind),
        where_length_(where.size()),
        problem_length_(problem.size()) {}

  /// That of its class.
  [[nodiscard]] ErrorKind kind() const { return kind_; }
  /// The place, as a part of what(). Memory: of this error.
  [[nodiscard]] std::string_view where() const { return std::string_view(what()).substr(0, where_length_); }
  /// What was found, likewise.
  [[nodiscard]] std::string_view problem() const {
    return std::string_view(what()).substr(where_length_ + 2, problem_length_);
  }
  /// What to do, likewise.
  [[nodiscard]] std::string_view hint() const {
    return std::string_view(what()).substr(where_length_ + problem_length_ + 4);
  }

 private:
  ErrorKind kind_;
  std::size_t where_length_;
  std::size_t problem_length_;
};

/// The class of each kind.
template <ErrorKind kKind>
class ErrorOf : public Error {
 public:
  /// As Error.
  ErrorOf(const std::string& where, const std::string& problem, const std::string& hint)
      : Error(kKind, where, problem, hint) {}
};

using UsageError = ErrorOf<ErrorKind::usage>;           ///< ErrorKind::usage
using ShapeError = ErrorOf<ErrorKind::shape>;           ///< ErrorKind::shape
using FormatError = ErrorOf<ErrorKind::format>;         ///< ErrorKind::format
using InputError = ErrorOf<ErrorKind::input>;           ///< ErrorKind::input
using OutputError = ErrorOf<ErrorKind::output>;         ///< ErrorKind::output
using IoError = ErrorOf<ErrorKind::io>;                 ///< ErrorKind::io
using OutOfMemory = ErrorOf<ErrorKind::memory>;         ///< ErrorKind::memory
using DeviceError = ErrorOf<ErrorKind::device>;         ///< ErrorKind::device
using VerifyError = ErrorOf<ErrorKind::verify>;         ///< ErrorKind::verify
using Interrupted = ErrorOf<ErrorKind::interrupted>;    ///< ErrorKind::interrupted
using SaturationError = ErrorOf<ErrorKind::saturated>;  ///< ErrorKind::saturated

/// A CUDA call failed in a way that the user cannot mend by other options.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace spmm
