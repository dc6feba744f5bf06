// How each kind of call fails, and which calls are chosen to fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "faults/fault_state.hpp"

namespace spmm::test {

/// One call that fails.
struct FaultPoint {
  FaultKind kind{};
  FaultMode mode{};
  std::uint64_t at = 0;
  int error = 0;
};

/// "memory once 17".
std::string text_of(const FaultPoint& point);

/// Whether a program has to get over it: short reads and writes, and interruptions.
bool must_be_survived(const FaultPoint& point);

/// How each kind fails: modes with their errno.
std::vector<std::pair<FaultMode, int>> modes_of(FaultKind kind);

/// How many of the points of one kind and mode are run: `quick` evenly spread ones, times SPMM_TEST_FAULTS; every one
/// where that is "all".
std::vector<std::uint64_t> chosen_points(std::uint64_t num_calls, std::uint64_t quick);

/// Whether SPMM_TEST_FAULTS asks for every point.
bool all_points();

/// Whether this process runs the point with that number: all, or with SPMM_TEST_FAULTS_SHARE="K/N" each N-th: a sample, or
/// the share of one of N processes. Errors: std::runtime_error.
bool is_in_share(std::uint64_t number);

/// The point that SPMM_TEST_FAULT_POINT="KIND MODE NUMBER" names, if it is set. Errors: std::runtime_error.
std::optional<FaultPoint> only_point();

}  // namespace spmm::test
