// The life of a worker process.
#include "tools/batch/batch.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/run/parallel.hpp"
#include "base/temporary_names.hpp"
#include "cli/exit_codes.hpp"
#include "cli/program.hpp"
#include "io/formats/format.hpp"
#include "io/system/descriptor.hpp"
#include "spmm/engine.hpp"
#include "spmm/report.hpp"

namespace spmm::batch {

const int kEndSignal = SIGUSR2;

namespace {

constexpr std::size_t kMaxMessage = 8192;
constexpr std::size_t kMaxPacket = 16384;

void multiply(Engine& engine, const WorkerSetup& setup, const Job& job, JobResult& result) {
  ProductOptions options = job.product;
  if (setup.visible_device.empty() && options.backend == Backend::automatic) options.backend = Backend::cpu;
  // Taken before the product: inputs that change under it are run again by --resume.
  result.a = state_of(job.a);
  result.b = state_of(job.b);
  const Report report = engine.multiply(job.a, job.b, job.out, options);
  result.out = state_of(job.out);
  result.in_bytes = result.a.size + result.b.size;
  result.out_bytes = io::file_bytes_of(ElementType::u32, report.c);
  result.pairs = report.pairs;
  result.saturated_elements = report.saturated_elements;
  result.backend = report.plan.backend;
  result.kernel = report.plan.kernel;
  result.num_threads = report.plan.num_threads;
}

JobResult run_job(Engine& engine, const WorkerSetup& setup, std::uint64_t number, const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  JobResult result;
  result.job = number;
  try {
    multiply(engine, setup, job, result);
  } catch (...) {
    const cli::Failure failure = cli::failure_of_current_exception();
    result.exit_code = failure.exit_code;
    result.message = failure.message;
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

/// Each thread of a worker takes the next number that comes.
void serve(Engine& engine, const WorkerSetup& setup, std::span<const Job> jobs, int socket) {
  std::uint64_t number = 0;
  while (io::retried([&] { return ::recv(socket, &number, sizeof number, 0); }) == sizeof number) {
    if (send_result(socket, run_job(engine, setup, number, jobs[number]))) continue;
    // A result that is lost would be waited for for ever; the end of the process says that the job is to be run again.
    remove_temporary_files();
    ::_exit(cli::kIoError);
  }
}

/// Ends the process as the signal does by itself, with temporary files removed.
void end_by_signal(int number) {
  remove_temporary_files();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

void prepare(const WorkerSetup& setup, pid_t supervisor) {
  for (const int number : cli::kStopSignals) ::signal(number, end_by_signal);
  // Signals for the whole group (Ctrl-C, a cluster's SIGTERM) are the supervisor's, who ends its workers.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGPIPE, SIGXFSZ}) ::signal(number, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, kEndSignal);
  if (::getppid() != supervisor) ::_exit(1);  // it died before the line above
  ::prctl(PR_SET_NAME, ("spmm-" + setup.name).c_str());
  if (setup.gives_way) {
    constexpr int kNice = 5;
    static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNice));  // for the threads to come, too
  }
  if (!setup.visible_device.empty()) ::setenv("CUDA_VISIBLE_DEVICES", setup.visible_device.c_str(), 1);
}

}  // namespace

bool send_result(int socket, const JobResult& result) {
  static_assert(std::is_trivially_copyable_v<ResultNumbers>);
  const ResultNumbers& numbers = result;
  std::string packet(reinterpret_cast<const char*>(&numbers), sizeof numbers);
  packet.append(result.kernel).append(1, '\0').append(result.message, 0, kMaxMessage);
  return io::retried([&] { return ::send(socket, packet.data(), packet.size(), MSG_NOSIGNAL); }) >= 0;
}

std::optional<JobResult> receive_result(int socket, bool& is_closed) {
  std::array<char, kMaxPacket> packet;
  const ssize_t got = io::retried([&] { return ::recv(socket, packet.data(), packet.size(), MSG_DONTWAIT); });
  is_closed = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  if (got <= 0) return std::nullopt;
  JobResult result;
  ResultNumbers& numbers = result;
  std::memcpy(&numbers, packet.data(), sizeof numbers);
  result.kernel = packet.data() + sizeof numbers;
  result.message.assign(packet.data() + sizeof numbers + result.kernel.size() + 1, packet.data() + got);
  return result;
}

void run_worker(const WorkerSetup& setup, std::span<const Job> jobs, int socket, pid_t supervisor) {
  prepare(setup, supervisor);
  int code = cli::kOk;
  try {
    // Never destroyed, nor are the threads joined: the end of the process is quicker than an orderly one.
    auto* const engine = new Engine({.num_threads = setup.num_threads, .memory_limit_bytes = setup.memory_limit_bytes});
    auto* const threads = new std::vector<std::jthread>;
    threads->reserve(setup.num_slots);
    while (threads->size() + 1 < setup.num_slots) {
      std::jthread thread = start_thread([=, &setup] { serve(*engine, setup, jobs, socket); });
      if (!thread.joinable()) break;  // fewer jobs at once
      threads->push_back(std::move(thread));
    }
    serve(*engine, setup, jobs, socket);
  } catch (...) {
    code = cli::failure_of_current_exception().exit_code;
  }
  remove_temporary_files();
  ::_exit(code);
}

}  // namespace spmm::batch
