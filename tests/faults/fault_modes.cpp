#include "faults/fault_modes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace spmm::test {

std::string text_of(const FaultPoint& point) {
  return std::string(kFaultKindNames[static_cast<std::size_t>(point.kind)]) + " " +
         kFaultModeNames[static_cast<std::size_t>(point.mode)] + " " + std::to_string(point.at);
}

bool must_be_survived(const FaultPoint& point) {
  return point.mode == FaultMode::shortened || point.mode == FaultMode::interrupted;
}

std::vector<std::pair<FaultMode, int>> modes_of(FaultKind kind) {
  const auto failing = [](int error) {
    return std::vector<std::pair<FaultMode, int>>{{FaultMode::once, error}, {FaultMode::from_here, error}};
  };
  const auto interrupted = [&](int error, bool can_be_short = false) {
    auto modes = failing(error);
    modes.emplace_back(FaultMode::interrupted, EINTR);
    if (can_be_short) modes.emplace_back(FaultMode::shortened, 0);
    return modes;
  };
  switch (kind) {
    case FaultKind::open:
      return failing(EMFILE);
    case FaultKind::read:
    case FaultKind::pread:
      return interrupted(EIO, true);
    case FaultKind::write:
    case FaultKind::pwrite:
      return interrupted(ENOSPC, true);
    case FaultKind::fallocate:
      return interrupted(ENOSPC);
    case FaultKind::ftruncate:
    case FaultKind::sync:
      return interrupted(EIO);
    case FaultKind::lock:
      return interrupted(EIO);
    case FaultKind::permission:
      return failing(EPERM);
    case FaultKind::mmap:
    case FaultKind::memory:
      return failing(ENOMEM);
    case FaultKind::thread:
    case FaultKind::process:
      return failing(EAGAIN);
    case FaultKind::socket:
      return failing(EMFILE);
    case FaultKind::send:
    case FaultKind::receive:
      return interrupted(ENOMEM);
    case FaultKind::wait:
      return {{FaultMode::interrupted, EINTR}};
    default:
      return failing(EIO);
  }
}

std::vector<std::uint64_t> chosen_points(std::uint64_t num_calls, std::uint64_t quick) {
  const char* const wish = std::getenv("SPMM_TEST_FAULTS");
  const std::string factor = wish == nullptr ? "1" : wish;
  const std::uint64_t count =
      factor == "all" ? num_calls : std::min<std::uint64_t>(num_calls, quick * std::stoull(factor));
  std::vector<std::uint64_t> points;
  // The middle of each of `count` equal shares.
  for (std::uint64_t p = 0; p < count; ++p) points.push_back(1 + (2 * p + 1) * num_calls / (2 * count));
  return points;
}

bool all_points() {
  const char* const wish = std::getenv("SPMM_TEST_FAULTS");
  return wish != nullptr && std::string(wish) == "all";
}

bool is_in_share(std::uint64_t number) {
  const char* const wish = std::getenv("SPMM_TEST_FAULTS_SHARE");
  if (wish == nullptr) return true;
  std::istringstream words(wish);
  std::uint64_t share = 0;
  std::uint64_t count = 0;
  char slash = 0;
  if (!(words >> share >> slash >> count) || slash != '/' || share >= count) {
    throw std::runtime_error("SPMM_TEST_FAULTS_SHARE: give K/N, K from 0 to N - 1");
  }
  return number % count == share;
}

std::optional<FaultPoint> only_point() {
  const char* const wish = std::getenv("SPMM_TEST_FAULT_POINT");
  if (wish == nullptr) return std::nullopt;
  std::istringstream words(wish);
  std::string kind;
  std::string mode;
  FaultPoint point;
  words >> kind >> mode >> point.at;
  for (std::size_t k = 0; k < kNumFaultKinds; ++k) {
    if (kind != kFaultKindNames[k]) continue;
    point.kind = static_cast<FaultKind>(k);
    for (const auto& [of_kind, error] : modes_of(point.kind)) {
      if (mode != kFaultModeNames[static_cast<std::size_t>(of_kind)]) continue;
      point.mode = of_kind;
      point.error = error;
      return point;
    }
  }
  throw std::runtime_error("SPMM_TEST_FAULT_POINT: unknown kind or mode");
}

}  // namespace spmm::test
