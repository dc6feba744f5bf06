// All ranks go on, or none does.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mpi/communicator.hpp"

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

/// Stages of a run, each of them work of this rank alone, without messages: at its end all ranks learn whether all have
/// succeeded. If any has thrown, all throw what the first of them said.
class Stages {
 public:
  Stages(const Communicator& ranks, FailureOf failure_of) : ranks_(ranks), failure_of_(std::move(failure_of)) {}

  /// What messages call this rank's device; "": nothing.
  void name_device(std::string device) { device_ = std::move(device); }

  /// Errors: AgreedFailure.
  void run(const std::function<void()>& body) const;

  /// For long work: a failure of another rank interrupts it. Values: cancel = of this rank, may be null; body must
  /// throw Interrupted soon after `stop` was set. Errors: AgreedFailure.
  void run_long(const std::atomic<bool>* cancel, const std::function<void(const std::atomic<bool>* stop)>& body) const;

 private:
  void agree(const RankFailure& failure) const;

  const Communicator& ranks_;
  FailureOf failure_of_;
  std::string device_;
};

/// What a rank has otherwise than rank 0.
struct Difference {
  std::size_t which = 0;  ///< of the words
  std::string words;      ///< "X on this rank, Y on rank 0 (HOST)"
};

/// The first of these words that is not the same on rank 0. Collective. Shapes: as many on all ranks.
std::optional<Difference> difference(const Communicator& ranks, const std::vector<std::string>& own);

}  // namespace spmm::mpi
