// What survives a killed process, a full disk and a limit on the size of files.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/files/file_sink.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using io::TempKind;
namespace fs = std::filesystem;

constexpr std::uint32_t kM = 4;

/// Writes `num_blocks` result blocks through a sink, and publishes them where asked.
void write_output(const fs::path& path, const std::string& records, TempKind temp, bool publish) {
  const auto num_blocks = static_cast<std::uint32_t>(records.size() / output_record_bytes(kM));
  const auto sink = io::open_tuned_file_sink(path, kM, {}, {.temp = temp, .piece_bytes = 1000});
  sink->write(0, std::as_bytes(std::span(records)), {});
  sink->finish({.n = 400, .m = kM, .num_blocks = num_blocks});
  if (publish) sink->publish();
}

TEST_CASE("a limit on the size of files is an error with a hint, and the old content stays") {
  const TemporaryFolder folder;
  const std::string records = result_records(kM, 300);
  const auto message_under_limit = [&](const std::function<void()>& action) {
    return in_child([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{.rlim_cur = 10'000, .rlim_max = 10'000};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string("setrlimit failed");
      return message_of<IoError>(action);
    });
  };
  const auto check = [&](const std::string& message, std::uint64_t written) {
    INFO(message);
    CHECK(names_place_and_hint(message, folder / "c.bin"));
    CHECK(has(message, "byte offset 10000"));
    CHECK(has(message, "File too large"));
    CHECK(has(message, "after " + std::to_string(written) + " bytes"));
    CHECK(has(message, "expected at least 21612"));  // 12 + 300 * 72
    CHECK(has(message, "ulimit -f"));
    CHECK(bytes_of(folder / "c.bin") == "old");
    CHECK(folder.names() == std::vector<std::string>{"c.bin"});
  };
  write_bytes(folder / "c.bin", "old");
  for (const TempKind temp : {TempKind::automatic, TempKind::named}) {
    check(message_under_limit([&] {
            const auto sink = io::open_tuned_file_sink(folder / "c.bin", kM, {},
                                                       {.temp = temp, .num_writers = 1, .piece_bytes = 999});
            sink->write(0, std::as_bytes(std::span(records)), {});
            sink->finish({.n = 400, .m = kM, .num_blocks = 300});
          }),
          10'000 - kHeaderBytes);
  }
  ProductMatrix product{.n = 400, .m = kM, .index = {}, .values = std::vector<std::uint32_t>(300 * kM * kM)};
  for (std::uint32_t b = 0; b < 300; ++b) product.index.push_back({b / 100, b % 100});
  check(message_under_limit([&] { write_product(folder / "c.bin", product); }), 10'000 - kHeaderBytes);
}

/// In a child process: mounts a tmpfs of 64 kB on `folder`, seen by this process only. Returns why not, or "".
std::string mount_small_disk(const fs::path& folder) {
  const uid_t user = ::getuid();
  const gid_t group = ::getgid();
  if (::unshare(CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER)) != 0) return "no private mounts here";
  if (user != 0) {
    write_bytes("/proc/self/setgroups", "deny");
    write_bytes("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
    write_bytes("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", folder.c_str(), "tmpfs", 0, "size=64k") != 0) {
    return "tmpfs cannot be mounted here";
  }
  return "";
}

TEST_CASE("a full disk is an error with a hint, and the old content stays") {
  const TemporaryFolder folder;
  const fs::path path = folder / "c.bin";
  const std::string records = result_records(kM, 2000);  // 144 kB
  for (const TempKind temp : {TempKind::automatic, TempKind::named}) {
    const std::string result = in_child([&] {
      if (const std::string why_not = mount_small_disk(folder.path()); !why_not.empty()) return "skip: " + why_not;
      write_bytes(path, "old");
      for (int i = 0; i < 3; ++i) {  // what a failed attempt took is free again
        const std::string message = message_of<IoError>([&] { write_output(path, records, temp, true); });
        if (!names_place_and_hint(message, path) || !has(message, "No space left on device") ||
            !has(message, "at least 144 kB are needed (free there now: ")) {
          return message;
        }
        if (bytes_of(path) != "old") return std::string("old content lost");
        if (folder.names() != std::vector<std::string>{"c.bin"}) return std::string("a file was left behind");
      }
      write_output(path, records.substr(0, 500 * output_record_bytes(kM)), temp, true);  // 36 kB fit
      if (bytes_of(path).size() != 36'012) return std::string("the small output is not there");
      if (::mount("none", folder.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "size=64k") != 0)
        return std::string("ok");
      const std::string read_only = message_of<OutputError>([&] { open_file_sink(path, kM, {}); });
      return has(read_only, "Read-only file system") ? "ok" : read_only;
    });
    if (result.starts_with("skip")) {
      WARN(result);
    } else {
      CHECK(result == "ok");
    }
  }
}

}  // namespace
