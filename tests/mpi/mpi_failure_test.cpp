// What goes wrong on one rank ends all of them, with one message and the documented code.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "cli/exit_codes.hpp"
#include "mpi/mpi_place.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;

constexpr const char* kTemporary = ".z.bin.spmm-mpi.tmp";

/// Operands, and an old output in their way.
void prepare(const MpiPlace& place, std::uint32_t n, std::uint32_t k) {
  place.set_operands(random_matrix(n, 4, k, 65535, 61), random_matrix(n, 4, k, 65535, 62));
  write_bytes("z.bin", kOld);
}

/// Runs a product that must fail: code, one message with these words, the old output, nothing else left. Returns the
/// message.
std::string check_failure(int num_ranks, const std::vector<std::string>& arguments, int code, const std::string& words,
                          const Variables& variables = {}) {
  const std::vector<std::string> before = names_in(".");
  const ProcessResult result = run_ranks(num_ranks, arguments, variables);
  INFO(result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.exit_code == code);
  const std::vector<std::string> messages = own_messages(result.err);
  REQUIRE(messages.size() == 1);
  CHECK(messages.front().find(words) != std::string::npos);
  CHECK(messages.front().find("[rank ") != std::string::npos);
  CHECK(bytes_of("z.bin") == kOld);
  CHECK(names_in(".") == before);
  return messages.front();
}

/// A file with one record changed to lie at (i, j).
void move_record(const std::string& path, std::uint64_t record, std::uint32_t i, std::uint32_t j) {
  std::string bytes = bytes_of(path);
  const std::uint64_t at = 12 + record * 40;
  bytes.replace(at, 4, reinterpret_cast<const char*>(&i), 4);
  bytes.replace(at + 4, 4, reinterpret_cast<const char*>(&j), 4);
  write_bytes(path, bytes);
}

/// A product in which rank R stops before its N-th read or write, until a message lets it go on ("stop-write:R:N").
class StoppedRun {
 public:
  StoppedRun(int num_ranks, const std::vector<std::string>& arguments, const std::string& fault)
      : run_(mpi_words(num_ranks, arguments, with(fault).env), with(fault)),
        stopped_(wait_for_stopped(arguments.back())) {}
  ~StoppedRun() {
    if (stopped_ > 0) ::kill(stopped_, SIGCONT);
  }
  StoppedRun(const StoppedRun&) = delete;
  StoppedRun& operator=(const StoppedRun&) = delete;

  [[nodiscard]] int pid() const { return stopped_; }
  ProcessResult go_on() {
    ::kill(std::exchange(stopped_, -1), SIGCONT);
    return run_.wait();
  }

 private:
  static ProcessOptions with(const std::string& fault) {
    ProcessOptions options;
    options.env = {{"SPMM_MPI_FAULT", fault}};
    options.timeout = kPatience;
    return options;
  }

  Process run_;
  int stopped_;
};

}  // namespace

TEST_CASE("a disk that fails on one rank, at any of its calls, fails the product on all with the same message",
          "[slow]") {
  const MpiPlace place;
  write_bytes("old.bin", kOld);
  ProductList products;
  const ProductList::How operands =
      products.add_operands(random_matrix(4096, 4, 20000, 65535, 61), random_matrix(4096, 4, 20000, 65535, 62));
  const ProductList::How inputs(operands.begin(), operands.end() - 1);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string at = ":" + std::to_string(rank) + ":";
    // read-eio: headers and digests are 34 reads, indices some ten, then the product reads.
    for (const char* const fault :
         {"enospc:1", "enospc:3", "write-eio:2", "read-eio:10", "read-eio:36", "read-eio:50"}) {
      std::string here = fault;
      here.replace(here.find(':'), 1, at);
      products.add(inputs, {"fault=" + here});
    }
  }
  products.run(3);
  CHECK(bytes_of("z.bin") == kOld);
}

TEST_CASE("a disk that fails on one rank ends all with one message") {
  const MpiPlace place;
  prepare(place, 1024, 3000);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
  for (const char* const fault : {"write-eio:0:1", "write-eio:2:0", "read-eio:1:20", "read-eio:1:36"}) {
    INFO(fault);
    const std::string rank(1, std::string(fault).at(std::string(fault).find(':') + 1));
    const std::string err = check_failure(3, words, kIoError, "error", {{"SPMM_MPI_FAULT", fault}});
    CHECK(err.find("[rank " + rank + " of 3 on ") != std::string::npos);
    CHECK(ranks_running("z.bin").empty());
  }
}

TEST_CASE("a rank that fails interrupts the others") {
  const MpiPlace place;
  spmm::write_matrix("x.bin", random_matrix(6400, 64, 8000, 65535, 1));  // 640,000 pairs of side 64
  std::filesystem::copy_file("x.bin", "y.bin");
  write_bytes("z.bin", kOld);
  const auto start = std::chrono::steady_clock::now();
  // Rank 1 fails when it reads its rows; by the reference rank 0 would compute for a minute or more.
  const ProcessResult result = run_ranks(2, {"--kernel", "reference", "--threads", "1", "x.bin", "y.bin", "z.bin"},
                                         {{"SPMM_MPI_FAULT", "read-eio:1:1300"}});
  INFO(result.err);
  CHECK(result.exit_code == kIoError);
  CHECK(own_messages(result.err).back().find("[rank 1 of 2 on ") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  CHECK(bytes_of("z.bin") == kOld);
}

TEST_CASE("a result with more blocks than a file holds ends all ranks with one message") {
  const MpiPlace place;
  prepare(place, 1024, 3000);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
  const std::string err = check_failure(3, words, 71, "the product has more than 100 non-zero blocks",
                                        {{"SPMM_MPI_FAULT", "blocks:1:100"}});
  CHECK(err.find("[rank 1 of 3 on ") != std::string::npos);
}

TEST_CASE("an input that changes while ranks read it is an error") {
  const MpiPlace place;
  prepare(place, 1024, 3000);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a file that was just changed is not trusted
  // Rank 1 has read headers and digests: it knows both files.
  StoppedRun run(2, {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"}, "stop-read:1:35");
  REQUIRE(run.pid() > 0);
  std::filesystem::last_write_time("y.bin", std::filesystem::file_time_type::clock::now());
  const ProcessResult result = run.go_on();
  INFO(result.err);
  CHECK(result.exit_code == kBadData);
  const std::vector<std::string> messages = own_messages(result.err);
  REQUIRE(messages.size() == 1);
  CHECK(messages.front().find("y.bin: the file was changed while it was read") != std::string::npos);
  CHECK(bytes_of("z.bin") == kOld);
  CHECK(names_in(".", {"x.bin", "y.bin", "z.bin", "expected.bin"}).empty());
}

TEST_CASE("bad inputs and options are rejected once, with the rank that saw them", "[slow]") {
  const MpiPlace place;
  prepare(place, 256, 300);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
  check_failure(2, {"-q", "x.bin", "nothing.bin", "z.bin"}, kNoInput, "nothing.bin");
  check_failure(2, {"--plan", "x.bin", "y.bin", "z.bin"}, kUsage, "--plan");
  check_failure(2, {"--progress", "always", "x.bin", "y.bin", "z.bin"}, kUsage, "--progress");
  check_failure(2, {"--kernel", "none", "x.bin", "y.bin", "z.bin"}, kUsage, "--kernel");
  check_failure(2, {"--no-clobber", "-q", "x.bin", "y.bin", "z.bin"}, kCannotCreate, "exists");
  check_failure(2, {"-q", "x.bin", "y.bin", "folder/z.bin"}, kCannotCreate, "folder");
  check_failure(2, {"-q", "x.bin", "y.bin", "x.bin"}, kUsage, "same file");
  check_failure(2, {"-q", "x.bin", "y.bin", "z.mtx"}, kUsage, "spmm-convert z.bin z.mtx");
  check_failure(2, {"--memory-limit", "5k", "-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"}, kMemory, "memory");
  const std::string good_a = bytes_of("x.bin");
  const std::string good_b = bytes_of("y.bin");
  move_record("x.bin", 250, 64, 0);
  check_failure(2, words, kBadData, "x.bin, record 250 (byte offset 10012): block index (64, 0)");
  write_bytes("x.bin", good_a);
  move_record("y.bin", 7, 0, 64);
  check_failure(3, words, kBadData, "y.bin, record 7 ");
  write_bytes("y.bin", good_b);
  // The same block twice, in the shares of two ranks; of a row of B that nothing meets as well.
  move_record("x.bin", 3, 5, 5);
  move_record("x.bin", 290, 5, 5);
  check_failure(3, words, kBadData,
                "x.bin, record 290 (byte offset 11612): block (5, 5) was stored before in record 3 ");
  spmm::write_matrix("x.bin", {.n = 256, .m = 4, .index = {}, .values = {}});
  move_record("y.bin", 4, 9, 9);
  move_record("y.bin", 299, 9, 9);
  check_failure(3, words, kBadData,
                "y.bin, record 299 (byte offset 11972): block (9, 9) was stored before in record 4 ");
}

TEST_CASE("a second run with the same output is refused while the first one lives") {
  const MpiPlace place;
  prepare(place, 256, 300);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
  write_bytes(kTemporary, "");
  const int fd = ::open(kTemporary, O_RDWR);
  REQUIRE(::flock(fd, LOCK_EX) == 0);
  check_failure(2, words, kCannotCreate, "another run writes it now");
  check_failure(1, words, kCannotCreate, "another run writes it now");
  ::close(fd);
  // What a killed run has left is taken over, whatever it holds.
  write_bytes(kTemporary, std::string(1'000'000, 'x'));
  ::chmod(kTemporary, 0600);
  CHECK(run_ranks(2, words).exit_code == 0);
  CHECK(bytes_of("z.bin") == bytes_of("expected.bin"));
  CHECK(names_in(".", {"x.bin", "y.bin", "z.bin", "expected.bin"}).empty());
}

TEST_CASE("tasks that do not see each other are refused") {
  const MpiPlace place;
  prepare(place, 256, 300);
  ProcessOptions options;
  options.env = {{"SLURM_NTASKS", "4"}, {"OMPI_MCA_btl", "self"}};
  options.timeout = kPatience;
  const ProcessResult result =
      run_process({std::string(SPMM_BIN_DIR) + "/spmm-mpi", "-q", "x.bin", "y.bin", "z.bin"}, options);
  INFO(result.err);
  CHECK(result.exit_code == kUsage);
  CHECK(result.err.find("SLURM_NTASKS says 4 tasks") != std::string::npos);
  CHECK(bytes_of("z.bin") == kOld);
}

TEST_CASE("kill -9 of any rank at any of its calls ends all, keeps the old output and leaves one temporary at most",
          "[slow]") {
  const MpiPlace place;
  prepare(place, 1024, 3000);
  const std::vector<std::string> words = {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"};
  // Ranks have met before their first read: Open MPI's launcher may hang for ever when one dies earlier.
  for (const std::string fault :
       {"stop-read:0:3", "stop-read:1:40", "stop-write:0:0", "stop-write:2:0", "stop-write:0:2"}) {
    INFO(fault);
    StoppedRun run(3, words, fault);
    REQUIRE(run.pid() > 0);
    CHECK(rank_of(run.pid()) == fault[fault.find(':') + 1] - '0');
    ::kill(run.pid(), SIGKILL);
    const ProcessResult result = run.go_on();
    INFO(result.err);
    CHECK_FALSE(result.timed_out);
    CHECK(result.exit_code == 137);
    CHECK(bytes_of("z.bin") == kOld);
    const std::vector<std::string> left = names_in(".", {"x.bin", "y.bin", "z.bin", "expected.bin"});
    CHECK((left.empty() || left == std::vector<std::string>{kTemporary}));
  }
  CHECK(run_ranks(3, words).exit_code == 0);
  CHECK(bytes_of("z.bin") == bytes_of("expected.bin"));
  CHECK(names_in(".", {"x.bin", "y.bin", "z.bin", "expected.bin"}).empty());
}

TEST_CASE("an MPI that does not serve threads is refused") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const MpiPlace place;
  prepare(place, 64, 60);
  check_failure(2, {"--backend", "cpu", "x.bin", "y.bin", "z.bin"}, kUnavailable, "expected MPI_THREAD_SERIALIZED",
                {{"LD_PRELOAD", SPMM_FEW_THREADS_MPI}});
#endif
}

TEST_CASE("SIGTERM to a rank is an interruption: code 75, nothing left") {
  const MpiPlace place;
  prepare(place, 1024, 3000);
  StoppedRun run(2, {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"}, "stop-write:1:0");
  REQUIRE(run.pid() > 0);
  ::kill(run.pid(), SIGTERM);
  const ProcessResult result = run.go_on();
  INFO(result.err);
  CHECK(result.exit_code == kInterrupted);
  CHECK(own_messages(result.err).size() == 1);
  CHECK(bytes_of("z.bin") == kOld);
  CHECK(names_in(".", {"x.bin", "y.bin", "z.bin", "expected.bin"}).empty());
}

TEST_CASE("SIGTERM to all ranks while rank 0 renames the output leaves the exit code to the product") {
  const MpiPlace place;
  prepare(place, 1024, 3000);
  StoppedRun run(2, {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"}, "stop-rename:0:0");
  REQUIRE(run.pid() > 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (const int pid : ranks_running("z.bin")) ::kill(pid, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  const ProcessResult result = run.go_on();
  INFO(result.err);
  CHECK(result.exit_code == kOk);
  CHECK(bytes_of("z.bin") == bytes_of("expected.bin"));
  CHECK(names_in(".", {"x.bin", "y.bin", "z.bin", "expected.bin"}).empty());
}

TEST_CASE("standard streams of spmm-mpi that are closed lead to /dev/null") {
  const MpiPlace place;
  prepare(place, 256, 300);
  const std::string command = "exec " SPMM_MPI_FAULTY " -v --backend cpu x.bin y.bin z.bin <&- >&- 2>&-";
  ProcessOptions options;
  options.env = {{"SPMM_MPI_FAULT", "stop-write:0:0"}};
  options.timeout = kPatience;
  Process run({SPMM_MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", "1", "/bin/sh", "-c", command}, options);
  const int pid = wait_for_stopped("z.bin");
  REQUIRE(pid > 0);
  for (const char* const stream : {"0", "1", "2"}) {
    const auto link = "/proc/" + std::to_string(pid) + "/fd/" + stream;
    CHECK(std::filesystem::read_symlink(link) == "/dev/null");
  }
  ::kill(pid, SIGCONT);
  const ProcessResult result = run.wait();
  INFO(result.err);
  CHECK(result.exit_code == kOk);
  CHECK(bytes_of("z.bin") == bytes_of("expected.bin"));
}
