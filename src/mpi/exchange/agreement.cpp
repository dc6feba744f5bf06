// Stages after which all ranks know whether one has failed.
#include "mpi/exchange/agreement.hpp"

#include <cstring>
#include <iostream>
#include <span>

#include "base/temporary_names.hpp"
#include "base/text.hpp"

namespace spmm::mpi {

void Stages::run(const std::function<void()>& body) const {
  RankFailure failure;
  try {
    body();
  } catch (...) {
    failure = failure_of_();
  }
  agree(failure);
}

void Stages::run_together(const std::function<void()>& body) const {
  RankFailure failure;
  try {
    body();
  } catch (const OtherRankFailed&) {
    static_cast<void>(ranks_.left_exchange());
  } catch (...) {
    failure = failure_of_();
    if (!ranks_.left_exchange()) {
      std::cerr << text("spmm-mpi: error: ", printable(placed(failure.message)), "\n") << std::flush;
      remove_temporary_files();
      ranks_.abort(failure.code);
    }
  }
  agree(failure);
}

std::string Stages::placed(const std::string& message) const {
  return text(message, " [rank ", ranks_.rank(), " of ", ranks_.size(), " on ", ranks_.host(),
              device_.empty() ? "" : ", ", device_, "]");
}

void Stages::agree(const RankFailure& failure) const {
  const auto rank = static_cast<std::uint64_t>(ranks_.rank());
  const auto size = static_cast<std::uint64_t>(ranks_.size());
  const std::uint64_t first = ranks_.min(failure.code != 0 ? rank : size);
  if (first == size) return;
  RankFailure agreed;
  Bytes words;
  if (first == rank) {
    const std::string message = placed(failure.message);
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

std::string difference(const Communicator& ranks, const std::string& own) {
  const auto of_first = [&](const std::string& words) {
    const auto bytes = std::as_bytes(std::span(words));
    const Bytes first = ranks.broadcast({bytes.begin(), bytes.end()}, 0);
    return std::string(reinterpret_cast<const char*>(first.data()), first.size());
  };
  const std::string first = of_first(own);
  const std::string host = of_first(ranks.host());
  return first == own ? "" : text(own, " on this rank, ", first, " on rank 0 (", host, ")");
}

}  // namespace spmm::mpi
