// The calls of MPI.
#include "mpi/exchange/communicator.hpp"

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <exception>

#include "base/memory/control_group.hpp"
#include "base/run/parallel.hpp"

namespace spmm::mpi {
namespace {

constexpr std::uint64_t kRankFailed = std::uint64_t{1} << 63;  // together with the counts of a round
constexpr std::uint64_t kMore = std::uint64_t{1} << 62;
constexpr std::uint64_t kMostMessage = 256u << 20;
constexpr int kTag = 1;
constexpr int kLooksBeforeSleep = 200;
constexpr unsigned kSleepMicroseconds = 20;

std::uint64_t reduced(std::uint64_t value, MPI_Op operation) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, operation, MPI_COMM_WORLD);
  return value;
}

/// Calls body(begin, count) for pieces whose counts fit an int.
template <class Body>
void for_pieces(std::uint64_t size, std::uint64_t most, const Body& body) {
  for (std::uint64_t begin = 0; begin < size; begin += most) {
    body(begin, static_cast<int>(std::min(size - begin, most)));
  }
}

template <class T>
void reduce_all(std::span<T> values, MPI_Datatype type, MPI_Op operation, std::uint64_t message_bytes) {
  for_pieces(values.size(), std::max<std::uint64_t>(1, message_bytes / sizeof(T)), [&](std::uint64_t at, int count) {
    MPI_Allreduce(MPI_IN_PLACE, values.data() + at, count, type, operation, MPI_COMM_WORLD);
  });
}

}  // namespace

struct Gathering::State {
  MPI_Request request = MPI_REQUEST_NULL;
  std::uint64_t own = 0;
  std::vector<std::uint64_t> values;
};

Gathering::Gathering(int num_ranks) : state_(std::make_unique<State>()) {
  state_->values.assign(static_cast<std::size_t>(num_ranks), 0);
}
Gathering::~Gathering() = default;
Gathering::Gathering(Gathering&&) noexcept = default;
Gathering& Gathering::operator=(Gathering&&) noexcept = default;

void Gathering::start(std::uint64_t value) noexcept {
  state_->own = value;
  MPI_Iallgather(&state_->own, 1, MPI_UINT64_T, state_->values.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD,
                 &state_->request);
}

bool Gathering::is_done() const noexcept {
  int done = 0;
  MPI_Test(&state_->request, &done, MPI_STATUS_IGNORE);
  return done != 0;
}

std::span<const std::uint64_t> Gathering::finish() noexcept {
  // MPI_Wait would keep a core busy that another rank of this machine may need in order to come here.
  for (int looks = 0; !is_done(); ++looks) {
    if (looks > kLooksBeforeSleep) ::usleep(kSleepMicroseconds);
  }
  return state_->values;
}

Communicator::Communicator(const Policy& policy) {
  // Open MPI: a rank that waits lets others run on its core, be they its own threads, other ranks or other programs.
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  serves_threads_ = provided >= MPI_THREAD_SERIALIZED;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Comm local = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
  MPI_Comm_rank(local, &local_rank_);
  MPI_Comm_size(local, &local_size_);
  MPI_Comm_free(&local);
  char name[HOST_NAME_MAX + 1] = "";
  if (::gethostname(name, HOST_NAME_MAX) == 0) host_ = name;
  set_policy(policy);
}

void Communicator::set_policy(const Policy& policy) {
  policy_ = policy;
  message_bytes_ = std::clamp<std::uint64_t>(policy.message_bytes, 1, kMostMessage);
  const std::uint64_t of_all = std::max(kRoundBytes, kRoundBytesPerRank * static_cast<std::uint64_t>(size_));
  round_bytes_ = std::min(of_all, message_bytes_ * 64);
}

Communicator::~Communicator() {
  MPI_Finalize();
}

std::uint64_t Communicator::sum(std::uint64_t value) const {
  return reduced(value, MPI_SUM);
}
std::uint64_t Communicator::max(std::uint64_t value) const {
  return reduced(value, MPI_MAX);
}
std::uint64_t Communicator::min(std::uint64_t value) const {
  return reduced(value, MPI_MIN);
}

void Communicator::sum(std::span<std::uint64_t> values) const {
  reduce_all(values, MPI_UINT64_T, MPI_SUM, message_bytes_);
}
void Communicator::max(std::span<std::uint32_t> values) const {
  reduce_all(values, MPI_UINT32_T, MPI_MAX, message_bytes_);
}

std::vector<std::uint64_t> Communicator::gather(std::uint64_t value) const {
  std::vector<std::uint64_t> values(static_cast<std::size_t>(size_));
  MPI_Allgather(&value, 1, MPI_UINT64_T, values.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
  return values;
}

std::vector<Bytes> Communicator::gather(const Bytes& bytes) const {
  std::vector<Bytes> all;
  for (int from = 0; from < size_; ++from) all.push_back(broadcast(bytes, from));
  return all;
}

Bytes Communicator::broadcast(const Bytes& bytes, int from) const {
  std::uint64_t size = bytes.size();
  MPI_Bcast(&size, 1, MPI_UINT64_T, from, MPI_COMM_WORLD);
  Bytes result = rank_ == from ? bytes : Bytes(size);
  for_pieces(size, message_bytes_, [&](std::uint64_t at, int count) {
    MPI_Bcast(result.data() + at, count, MPI_BYTE, from, MPI_COMM_WORLD);
  });
  return result;
}

void Communicator::barrier() const {
  MPI_Barrier(MPI_COMM_WORLD);
}

unsigned Communicator::cores_per_rank() const {
  MPI_Comm local = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof cores, &cores);
  const unsigned own = usable_cores();
  unsigned claimed = own;
  MPI_Allreduce(MPI_IN_PLACE, &claimed, 1, MPI_UNSIGNED, MPI_SUM, local);
  MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof cores, MPI_BYTE, MPI_BOR, local);
  MPI_Comm_free(&local);
  const unsigned there = std::min(static_cast<unsigned>(CPU_COUNT(&cores)), control_group_cores());
  if (claimed <= there || there == 0) return own;
  return std::max(1u, own * there / claimed);
}

void Communicator::exchange(const Produce& produce, const Consume& consume) const {
  std::exception_ptr failure;
  Bytes received;
  std::vector<Bytes> to(static_cast<std::size_t>(size_));
  std::vector<std::uint64_t> outgoing(to.size());
  std::vector<std::uint64_t> incoming(to.size());
  for (bool goes_on = true; goes_on;) {
    for (Bytes& bytes : to) bytes.clear();
    bool more = false;
    try {
      if (!failure) more = produce(to);
    } catch (...) {
      failure = std::current_exception();
    }
    for (std::size_t r = 0; r < to.size(); ++r) {
      outgoing[r] = failure ? kRankFailed : to[r].size() | (more ? kMore : 0);
    }
    MPI_Alltoall(outgoing.data(), 1, MPI_UINT64_T, incoming.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
    std::uint64_t flags = 0;
    for (std::uint64_t& count : incoming) {
      flags |= count;
      count &= ~(kRankFailed | kMore);
    }
    if ((flags & kRankFailed) != 0) break;
    goes_on = (flags & kMore) != 0;
    swap(to, incoming, received, [&](int from, std::span<const std::byte> bytes) {
      try {
        if (!failure) consume(from, bytes);
      } catch (...) {
        failure = std::current_exception();
      }
    });
  }
  if (max(failure ? 1 : 0) == 0) return;
  left_exchange_ = true;
  if (failure) std::rethrow_exception(failure);
  throw OtherRankFailed();
}

void Communicator::swap(const std::vector<Bytes>& to, std::span<const std::uint64_t> incoming, Bytes& received,
                        const Consume& consume) const {
  const auto number = [](int rank) { return static_cast<std::size_t>(rank); };
  if (!to[number(rank_)].empty()) consume(rank_, to[number(rank_)]);
  std::vector<MPI_Request> requests;
  for (int step = 1; step < size_; ++step) {
    const int from = (rank_ + size_ - step) % size_;
    const int target = (rank_ + step) % size_;
    const Bytes& sent = to[number(target)];
    const std::uint64_t size = incoming[number(from)];
    if (received.size() < size) received.resize(size);  // kept for the next round
    for_pieces(size, message_bytes_, [&](std::uint64_t at, int count) {
      requests.emplace_back();
      MPI_Irecv(received.data() + at, count, MPI_BYTE, from, kTag, MPI_COMM_WORLD, &requests.back());
    });
    for_pieces(sent.size(), message_bytes_, [&](std::uint64_t at, int count) {
      requests.emplace_back();
      MPI_Isend(sent.data() + at, count, MPI_BYTE, target, kTag, MPI_COMM_WORLD, &requests.back());
    });
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    requests.clear();
    if (size != 0) consume(from, std::span(received).first(size));
  }
}

void Communicator::abort(int code) const {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace spmm::mpi
