// The calls of MPI.
#include "mpi/communicator.hpp"

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <numeric>

#include "base/memory/machine_memory.hpp"
#include "base/run/parallel.hpp"

namespace spmm::mpi {
namespace {

constexpr int kAlarmTag = 1;

std::uint64_t reduced(std::uint64_t value, MPI_Op operation) {
  constexpr int kTestsBeforeSleep = 200;
  constexpr unsigned kSleepMicroseconds = 20;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, operation, MPI_COMM_WORLD, &request);
  // To wait at once would keep a core busy that another rank of this machine may need in order to come here.
  int is_done = 0;
  for (int tests = 0; is_done == 0; ++tests) {
    if (tests > kTestsBeforeSleep) ::usleep(kSleepMicroseconds);
    MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return value;
}

}  // namespace

Communicator::Communicator() {
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
}

Communicator::~Communicator() {
  MPI_Finalize();
}

std::uint64_t Communicator::sum(std::uint64_t value) const {
  return reduced(value, MPI_SUM);
}

std::uint64_t Communicator::min(std::uint64_t value) const {
  return reduced(value, MPI_MIN);
}

std::vector<std::uint64_t> Communicator::gather(std::uint64_t value) const {
  std::vector<std::uint64_t> values(static_cast<std::size_t>(size_));
  MPI_Allgather(&value, 1, MPI_UINT64_T, values.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
  return values;
}

std::vector<Bytes> Communicator::gather_at_first(const Bytes& bytes) const {
  const auto own_size = static_cast<int>(bytes.size());
  std::vector<int> sizes(static_cast<std::size_t>(size_));
  std::vector<int> begins(sizes.size());
  MPI_Gather(&own_size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), 0);
  Bytes together(rank_ == 0 ? static_cast<std::size_t>(begins.back() + sizes.back()) : 0);
  MPI_Gatherv(bytes.data(), own_size, MPI_BYTE, together.data(), sizes.data(), begins.data(), MPI_BYTE, 0,
              MPI_COMM_WORLD);
  std::vector<Bytes> all;
  for (std::size_t r = 0; rank_ == 0 && r < sizes.size(); ++r) {
    all.emplace_back(together.begin() + begins[r], together.begin() + begins[r] + sizes[r]);
  }
  return all;
}

Bytes Communicator::broadcast(const Bytes& bytes, int from) const {
  std::uint64_t size = bytes.size();
  MPI_Bcast(&size, 1, MPI_UINT64_T, from, MPI_COMM_WORLD);
  Bytes result = rank_ == from ? bytes : Bytes(size);
  MPI_Bcast(result.data(), static_cast<int>(size), MPI_BYTE, from, MPI_COMM_WORLD);
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

void Communicator::raise_alarm() const {
  for (int to = 0; to < size_; ++to) {
    if (to != rank_) MPI_Send(nullptr, 0, MPI_BYTE, to, kAlarmTag, MPI_COMM_WORLD);  // too short to wait for a receiver
  }
}

bool Communicator::hears_alarm() const {
  int is_there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, kAlarmTag, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
  return is_there != 0;
}

void Communicator::clear_alarms(bool has_raised) const {
  for (std::uint64_t left = sum(has_raised ? 1 : 0) - (has_raised ? 1 : 0); left != 0; --left) {
    MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kAlarmTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

void Communicator::abort(int code) const {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace spmm::mpi
