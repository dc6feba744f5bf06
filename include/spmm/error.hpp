// What can go wrong. Every error names the place, what was found and what to do about it.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace spmm {

/// Base of all errors thrown on purpose. what() reads "<where>: <problem>; <hint>".
class Error : public std::runtime_error {
 public:
  /// The place, what was found there, and what to do.
  Error(const std::string& where, const std::string& problem, const std::string& hint)
      : std::runtime_error(where + ": " + problem + "; " + hint),
        where_length_(where.size()),
        problem_length_(problem.size()) {}

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
  std::size_t where_length_;
  std::size_t problem_length_;
};

/// A combination of options that cannot be carried out (unknown kernel, output equal to an input, ...).
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A and B do not fit each other (different n or m).
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A file, or a matrix in memory, breaks the format.
class FormatError : public Error {
 public:
  using Error::Error;
};

/// An input cannot be opened.
class InputError : public Error {
 public:
  using Error::Error;
};

/// The output cannot be created.
class OutputError : public Error {
 public:
  using Error::Error;
};

/// Reading or writing failed on the way (ENOSPC, EIO, ...).
class IoError : public Error {
 public:
  using Error::Error;
};

/// Work does not fit the memory or a stated limit.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// The asked-for backend or device is not available.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A CUDA call failed in a way that the user cannot mend by other options.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// --verify found a wrong row of the result.
class VerifyError : public Error {
 public:
  using Error::Error;
};

/// Elements of the result are 2^32 - 1 and OnSaturation::error was asked for; nothing was written.
class SaturationError : public Error {
 public:
  using Error::Error;
};

/// The run was cancelled; nothing was written, it is safe to run it again.
class Interrupted : public Error {
 public:
  using Error::Error;
};

}  // namespace spmm
