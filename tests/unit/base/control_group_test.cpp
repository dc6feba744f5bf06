// Free memory and cores from made-up /proc and control groups.

#include <climits>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/memory/machine_memory.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"

namespace {

using namespace spmm;
namespace fs = std::filesystem;

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMb = 1u << 20;

/// The root of a machine that only has what is put there.
class Machine {
 public:
  /// Shapes: what /proc/self/cgroup says.
  explicit Machine(const std::string& groups) { put("proc/self/cgroup", groups); }
  void put(const fs::path& file, const std::string& content) const {
    fs::create_directories((root() / file).parent_path());
    std::ofstream(root() / file) << content;
  }
  /// One group of version 2.
  void put_v2(const fs::path& folder, const std::string& max, std::uint64_t current, std::uint64_t inactive_file,
              std::uint64_t active_file) const {
    put(folder / "memory.max", max + "\n");
    put(folder / "memory.current", std::to_string(current) + "\n");
    put(folder / "memory.stat", "anon 5\nfile 999999999999\nshmem 7\nfile_dirty 3\ninactive_anon 1\ninactive_file " +
                                    std::to_string(inactive_file) + "\nactive_file " + std::to_string(active_file) +
                                    "\nslab_reclaimable 123456789\n");
  }
  /// One group of version 1; its own pages differ from the totals with the groups below.
  void put_v1(const fs::path& folder, std::uint64_t limit, std::uint64_t usage, std::uint64_t inactive_file,
              std::uint64_t active_file, std::uint64_t above = 9223372036854771712u) const {
    put(folder / "memory.limit_in_bytes", std::to_string(limit) + "\n");
    put(folder / "memory.usage_in_bytes", std::to_string(usage) + "\n");
    put(folder / "memory.stat", "cache 1\ninactive_file 11\nactive_file 12\nhierarchical_memory_limit " +
                                    std::to_string(above) + "\ntotal_inactive_file " + std::to_string(inactive_file) +
                                    "\ntotal_active_file " + std::to_string(active_file) + "\n");
  }
  [[nodiscard]] const fs::path& root() const { return folder_.path(); }
  [[nodiscard]] std::uint64_t available() const { return control_group_available_bytes(root()); }

 private:
  test::TemporaryFolder folder_;
};

TEST_CASE("no control groups, or none with a limit") {
  CHECK(Machine("").available() == kUnlimited);
  CHECK(control_group_available_bytes("/nonexistent") == kUnlimited);
  const Machine machine("0::/user.slice\n");
  CHECK(machine.available() == kUnlimited);
  machine.put_v2("sys/fs/cgroup/user.slice", "max", 100 * kMb, 0, 0);
  CHECK(machine.available() == kUnlimited);
}

TEST_CASE("version 2: page cache that can be given back is free memory, other cache is not") {
  const Machine machine("0::/job\n");
  machine.put_v2("sys/fs/cgroup/job", "104857600", 99 * kMb, 60 * kMb, 30 * kMb);
  CHECK(machine.available() == 91 * kMb);
  machine.put_v2("sys/fs/cgroup/job", "104857600", 99 * kMb, 0, 0);
  CHECK(machine.available() == 1 * kMb);
  machine.put_v2("sys/fs/cgroup/job", "104857600", 120 * kMb, 5 * kMb, 5 * kMb);
  CHECK(machine.available() == 0);
  machine.put_v2("sys/fs/cgroup/job", "104857600", 10 * kMb, 20 * kMb, 5 * kMb);  // the table lags behind
  CHECK(machine.available() == 100 * kMb);
  machine.put("sys/fs/cgroup/job/memory.high", std::to_string(50 * kMb));  // processes are slowed down beyond it
  CHECK(machine.available() == 50 * kMb);
}

TEST_CASE("version 2: the tightest level of nested groups counts, as Slurm nests them") {
  const fs::path scope = "sys/fs/cgroup/system.slice/slurmstepd.scope";
  const Machine machine("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n");
  for (const char* level : {"", "job_7", "job_7/step_0", "job_7/step_0/user", "job_7/step_0/user/task_0"}) {
    machine.put_v2(scope / level, "max", 10 * kMb, 0, 0);
  }
  CHECK(machine.available() == kUnlimited);
  machine.put_v2(scope / "job_7", std::to_string(500 * kMb), 300 * kMb, 50 * kMb, 50 * kMb);
  CHECK(machine.available() == 300 * kMb);
  machine.put_v2(scope / "job_7/step_0", std::to_string(400 * kMb), 300 * kMb, 50 * kMb, 50 * kMb);
  CHECK(machine.available() == 200 * kMb);
  machine.put_v2(scope / "job_7/step_0/user/task_0", std::to_string(64 * kMb), 14 * kMb, 0, 0);
  CHECK(machine.available() == 50 * kMb);
  machine.put_v2("sys/fs/cgroup/system.slice", std::to_string(40 * kMb), 30 * kMb, 0, 0);
  CHECK(machine.available() == 10 * kMb);
  machine.put_v2(scope / "job_8", std::to_string(1), 1, 0, 0);  // of another job
  CHECK(machine.available() == 10 * kMb);
}

TEST_CASE("version 1: totals with the groups below, every level, and the limit that a container does not see") {
  const Machine machine("9:name=systemd:/x\n5:cpu,cpuacct:/cpu\n4:hugetlb,memory:/slurm/uid_0/job_3\n0::/\n");
  const fs::path groups = "sys/fs/cgroup/memory";
  CHECK(machine.available() == kUnlimited);
  machine.put_v1(groups / "slurm/uid_0/job_3", 100 * kMb, 90 * kMb, 40 * kMb, 20 * kMb);
  CHECK(machine.available() == 70 * kMb);
  machine.put_v1(groups / "slurm/uid_0", 60 * kMb, 50 * kMb, 0, 1 * kMb);
  CHECK(machine.available() == 11 * kMb);
  machine.put_v1(groups / "slurm", 1000 * kMb, 995 * kMb, 0, 0);
  CHECK(machine.available() == 5 * kMb);
  machine.put_v1(groups, 9223372036854771712u, 7 * kMb, 0, 0);
  CHECK(machine.available() == 5 * kMb);
  machine.put_v1(groups / "slurm/uid_0/job_3", 9223372036854771712u, 90 * kMb, 40 * kMb, 20 * kMb, 33 * kMb);
  CHECK(machine.available() == 3 * kMb);
}

TEST_CASE("containers: the mount shows a part of the hierarchy") {
  const Machine inside("4:memory:/docker/abc/job\n");
  inside.put_v1("sys/fs/cgroup/memory", 100 * kMb, 10 * kMb, 0, 0);
  CHECK(inside.available() == 90 * kMb);
  inside.put_v1("sys/fs/cgroup/memory/job", 50 * kMb, 10 * kMb, 0, 0);
  CHECK(inside.available() == 40 * kMb);

  const Machine bound("0::/machine/abc\n");  // named from outside, seen from inside
  bound.put_v2("sys/fs/cgroup", std::to_string(30 * kMb), 10 * kMb, 0, 0);
  CHECK(bound.available() == 20 * kMb);

  for (const char* outside : {"0::/../other\n", "0::/../../x/../y\n"}) {  // moved out of the namespace
    const Machine moved(outside);
    moved.put_v2("sys/fs/cgroup", std::to_string(30 * kMb), 10 * kMb, 0, 0);
    moved.put_v2("sys/fs/other", std::to_string(1 * kMb), 0, 0, 0);
    CHECK(moved.available() == 20 * kMb);
  }

  const Machine root("0::/\n");
  root.put_v2("sys/fs/cgroup", std::to_string(30 * kMb), 10 * kMb, 0, 0);
  CHECK(root.available() == 20 * kMb);
}

TEST_CASE("cores: the lowest quota of all levels, rounded up") {
  const auto cores = [](const Machine& machine) { return control_group_cores(machine.root()); };
  CHECK(cores(Machine("")) == UINT_MAX);
  const Machine two("0::/pod/job\n");
  CHECK(cores(two) == UINT_MAX);
  two.put("sys/fs/cgroup/pod/job/cpu.max", "max 100000\n");
  CHECK(cores(two) == UINT_MAX);
  two.put("sys/fs/cgroup/pod/cpu.max", "400000 100000\n");
  CHECK(cores(two) == 4);
  two.put("sys/fs/cgroup/pod/job/cpu.max", "150000 100000\n");
  CHECK(cores(two) == 2);
  two.put("sys/fs/cgroup/pod/job/cpu.max", "1000 100000\n");
  CHECK(cores(two) == 1);

  const Machine one("5:cpu,cpuacct:/slurm/job\n4:memory:/other\n0::/\n");
  const fs::path job = "sys/fs/cgroup/cpu/slurm/job";
  one.put(job / "cpu.cfs_quota_us", "-1\n");
  one.put(job / "cpu.cfs_period_us", "100000\n");
  CHECK(cores(one) == UINT_MAX);
  one.put(job / "cpu.cfs_quota_us", "250000\n");
  CHECK(cores(one) == 3);
}

TEST_CASE("free memory is what the machine and the groups leave") {
  const Machine machine("0::/job\n");
  // Without /proc: what the system call reports as free.
  CHECK(available_memory_bytes(machine.root()) > 0);
  CHECK(available_memory_bytes(machine.root()) < std::uint64_t{1} << 50);
  machine.put("proc/meminfo", "MemTotal: 2048000 kB\nMemFree: 1 kB\nMemAvailable:   102400 kB\nHugePages_Total: 0\n");
  CHECK(available_memory_bytes(machine.root()) == 100 * kMb);
  machine.put_v2("sys/fs/cgroup/job", std::to_string(60 * kMb), 20 * kMb, 0, 0);
  CHECK(available_memory_bytes(machine.root()) == 40 * kMb);
  const std::uint64_t here = available_memory_bytes();
  CHECK(here > 0);
  CHECK(here < kUnlimited);
}

}  // namespace
