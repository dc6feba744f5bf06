// All ranks go on, or none does.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "mpi/exchange/communicator.hpp"

namespace spmm::mpi {

/// Exit code and message of an exception.
struct RankFailure {
  int code = 0;
  std::string message;
};

/// Of the exception that is being handled; the program's table.
using FailureOf = std::function<RankFailure()>;

/// Thrown on every rank when one of them has failed. The message names rank, host and device.
class AgreedFailure : public std::exception {
 public:
  explicit AgreedFailure(RankFailure failure) : failure_(std::move(failure)) {}
  [[nodiscard]] const char* what() const noexcept override { return failure_.message.c_str(); }
  [[nodiscard]] int code() const { return failure_.code; }

 private:
  RankFailure failure_;
};

/// Stages of a run: at the end of each all ranks learn whether all have succeeded.
class Stages {
 public:
  Stages(const Communicator& ranks, FailureOf failure_of) : ranks_(ranks), failure_of_(std::move(failure_of)) {}

  /// What messages call this rank's device; "": nothing.
  void name_device(std::string device) { device_ = std::move(device); }

  /// Work of this rank alone; if any rank throws, all ranks throw what the first of them said.
  /// Errors: AgreedFailure.
  void run(const std::function<void()>& body) const;
  /// The same for work with collective calls. What Communicator::exchange() throws it throws on all ranks; after any
  /// other exception some would wait for ever, so that the message is printed and all ranks are ended.
  void run_together(const std::function<void()>& body) const;

 private:
  void agree(const RankFailure& failure) const;
  [[nodiscard]] std::string placed(const std::string& message) const;

  const Communicator& ranks_;
  FailureOf failure_of_;
  std::string device_;
};

/// What this rank has otherwise than rank 0, in words: "X on this rank, Y on rank 0 (HOST)"; "" if it has the same.
/// Collective.
std::string difference(const Communicator& ranks, const std::string& own);

}  // namespace spmm::mpi
