// Stages after which all ranks know whether one has failed.
#include "mpi/agreement.hpp"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <stop_token>
#include <system_error>
#include <thread>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::mpi {
namespace {

/// A thread that sets a flag if another rank has raised an alarm or this one is asked to stop. No other thread may call
/// MPI while it lives.
class Watch {
 public:
  Watch(const Communicator& ranks, const std::atomic<bool>* cancel) : cancel_(cancel) {
    try {
      thread_ = std::jthread([this, &ranks](const std::stop_token& end) { look(ranks, end); });
    } catch (const std::system_error&) {  // no thread is to be had: only this rank's flag counts
    }
  }

  [[nodiscard]] const std::atomic<bool>* stop() const { return thread_.joinable() ? &stop_ : cancel_; }
  /// Whether another rank has failed.
  [[nodiscard]] bool has_heard() const { return has_heard_; }

 private:
  void look(const Communicator& ranks, const std::stop_token& end) {
    constexpr std::chrono::milliseconds kPause{20};
    std::mutex mutex;
    std::condition_variable_any none;
    std::unique_lock lock(mutex);
    while (!end.stop_requested() && !stop_) {
      if (ranks.hears_alarm()) has_heard_ = stop_ = true;
      if (cancel_ != nullptr && *cancel_) stop_ = true;
      none.wait_for(lock, end, kPause, [] { return false; });
    }
  }

  const std::atomic<bool>* cancel_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> has_heard_ = false;
  std::jthread thread_;  // last: joined before anything else goes
};

}  // namespace

void Stages::run(const std::function<void()>& body) const {
  RankFailure failure;
  try {
    body();
  } catch (...) {
    failure = failure_of_();
  }
  agree(failure);
}

void Stages::run_long(const std::atomic<bool>* cancel,
                      const std::function<void(const std::atomic<bool>* stop)>& body) const {
  RankFailure failure;
  std::optional<Watch> watch(std::in_place, ranks_, cancel);
  try {
    body(watch->stop());
  } catch (const Interrupted&) {
    if (!watch->has_heard()) failure = failure_of_();
  } catch (...) {
    failure = failure_of_();
  }
  watch.reset();
  const bool has_failed = failure.code != 0;
  if (has_failed) ranks_.raise_alarm();
  ranks_.clear_alarms(has_failed);
  agree(failure);
}

void Stages::agree(const RankFailure& failure) const {
  const auto rank = static_cast<std::uint64_t>(ranks_.rank());
  const auto size = static_cast<std::uint64_t>(ranks_.size());
  const std::uint64_t first = ranks_.min(failure.code != 0 ? rank : size);
  if (first == size) return;
  RankFailure agreed;
  Bytes words;
  if (first == rank) {
    const std::string message = text(failure.message, " [rank ", rank, " of ", size, " on ", ranks_.host(),
                                     device_.empty() ? "" : ", ", device_, "]");
    words.resize(sizeof failure.code + message.size());
    std::memcpy(words.data(), &failure.code, sizeof failure.code);
    std::memcpy(words.data() + sizeof failure.code, message.data(), message.size());
  }
  words = ranks_.broadcast(words, static_cast<int>(first));
  std::memcpy(&agreed.code, words.data(), sizeof agreed.code);
  agreed.message.assign(reinterpret_cast<const char*>(words.data()) + sizeof agreed.code,
                        words.size() - sizeof agreed.code);
  throw AgreedFailure(agreed);
}

std::optional<Difference> difference(const Communicator& ranks, const std::vector<std::string>& own) {
  std::string joined = ranks.host() + '\0';
  for (const std::string& word : own) joined += word + '\0';
  const auto bytes = std::as_bytes(std::span(joined));
  const Bytes first = ranks.broadcast({bytes.begin(), bytes.end()}, 0);
  std::istringstream in(std::string(reinterpret_cast<const char*>(first.data()), first.size()));
  std::string host;
  std::getline(in, host, '\0');
  for (std::size_t which = 0; which < own.size(); ++which) {
    std::string word;
    std::getline(in, word, '\0');
    if (word == own[which]) continue;
    return Difference{.which = which, .words = text(own[which], " on this rank, ", word, " on rank 0 (", host, ")")};
  }
  return std::nullopt;
}

}  // namespace spmm::mpi
