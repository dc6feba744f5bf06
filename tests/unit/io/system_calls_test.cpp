// System calls that are interrupted, give less than asked for, or fail half-way.
#include "support/wrapped_calls.hpp"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "io/files/file_sink.hpp"
#include "io/files/output_file.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using io::OutputFile;
using io::TempKind;
namespace fs = std::filesystem;

/// Two of three calls are interrupted.
std::atomic<int> num_calls{0};
bool is_interrupted() {
  errno = EINTR;
  return num_calls++ % 3 != 2;
}

/// What a published file went through, in order.
std::vector<std::string> events;

int recorded_fsync(int fd) {
  struct stat info {};
  ::fstat(fd, &info);
  if (is_interrupted()) return -1;
  events.emplace_back(S_ISDIR(info.st_mode) ? "sync folder" : "sync file");
  return real_calls.fsync(fd);
}

int recorded_rename(int from_folder, const char* from, int to_folder, const char* to) {
  events.emplace_back("rename");
  return real_calls.renameat(from_folder, from, to_folder, to);
}

TEST_CASE("durable: the file is synced before the rename and its folder afterwards, also when interrupted") {
  const TemporaryFolder folder;
  const CallsRestored table;
  system_calls.fsync = recorded_fsync;
  system_calls.renameat = recorded_rename;
  for (const TempKind kind : {TempKind::automatic, TempKind::named}) {
    write_bytes(folder / "c", "old");
    for (const bool durable : {true, false}) {
      events.clear();
      OutputFile file(folder / "c", {.durable = durable}, kind);
      file.finish(kHeader);
      file.publish();
      CHECK(events == (durable ? std::vector<std::string>{"sync file", "rename", "sync folder"}
                               : std::vector<std::string>{"rename"}));
    }
  }
  events.clear();
  OutputFile file(folder / "new", {.durable = true});
  file.finish(kHeader);
  file.publish();
  CHECK(events.front() == "sync file");
  CHECK(events.back() == "sync folder");
}

TEST_CASE("a folder that cannot be synced is an error; one that needs no sync is none") {
  const TemporaryFolder folder;
  const CallsRestored table;
  const auto publish = [&] {
    OutputFile file(folder / "c", {.durable = true});
    file.finish(kHeader);
    file.publish();
  };
  const auto fail_folder = [](int fd, int error) {
    struct stat info {};
    ::fstat(fd, &info);
    errno = error;
    return S_ISDIR(info.st_mode) ? -1 : 0;
  };
  static const auto kFail = fail_folder;
  system_calls.fsync = [](int fd) { return kFail(fd, EIO); };
  const std::string message = message_of<IoError>(publish);
  CHECK(names_place_and_hint(message, folder / "c"));
  CHECK(has(message, "the output is complete"));
  system_calls.fsync = [](int fd) { return kFail(fd, EINVAL); };
  CHECK_NOTHROW(publish());
}

TEST_CASE("a reservation that fails and leaves the file longer does not change the output") {
  const TemporaryFolder folder;
  const CallsRestored table;
  // As ext4 does when it runs out of space on the way.
  system_calls.fallocate = [](int fd, int, off_t offset, off_t length) {
    (void)!real_calls.ftruncate(fd, offset + length / 2);
    errno = ENOSPC;
    return -1;
  };
  const std::string content(1000, 'x');
  for (const TempKind kind : {TempKind::automatic, TempKind::named}) {
    OutputFile file(folder / "c", {}, kind);
    file.expect_bytes(100u << 20);
    file.write_at(kHeaderBytes, std::as_bytes(std::span(content)));
    file.finish(kHeader);
    file.publish();
    CHECK(fs::file_size(folder / "c") == kHeaderBytes + content.size());
  }
  system_calls.fallocate = [](int, int, off_t, off_t) { return is_interrupted() ? -1 : 0; };
  num_calls = 0;
  OutputFile file(folder / "c", {});
  file.expect_bytes(100u << 20);
  file.expect_bytes(300u << 20);  // reserved in two steps, each interrupted twice
  CHECK(num_calls == 6);
}

TEST_CASE("a write that fails says what may help; what cannot be read again is an error") {
  static int error = 0;
  const TemporaryFolder folder;
  const std::string content(100, 'x');
  const auto bytes = std::as_bytes(std::span(content));
  for (const auto& [number, words] :
       {std::pair{EDQUOT, "quota"}, {EFBIG, "ulimit -f"}, {ENOSPC, "free there now"}, {EIO, "disk"}}) {
    const CallsRestored table;
    error = number;
    system_calls.pwrite = [](int, const void*, size_t, off_t) -> ssize_t {
      errno = error;
      return -1;
    };
    OutputFile file(folder / "c", {});
    file.expect_bytes(1000);
    const std::string message = message_of<IoError>([&] { file.write_at(kHeaderBytes, bytes); });
    INFO(message);
    CHECK(names_place_and_hint(message, folder / "c"));
    CHECK(has(message, words));
  }
  CHECK(folder.names().empty());
  OutputFile file(folder / "c", {});
  file.write_at(0, bytes);
  std::array<std::byte, 60> read;
  CHECK(file.read_at(40, read));
  CHECK(names_place_and_hint(message_of<IoError>([&] { (void)file.read_at(41, read); }), folder / "c"));
  CHECK_FALSE(OutputFile("/dev/null", {}).read_at(0, read));
}

TEST_CASE("all of the expected bytes are reserved, each once") {
  static std::uint64_t reserved_end = 0;
  const TemporaryFolder folder;
  const CallsRestored table;
  system_calls.fallocate = [](int, int, off_t offset, off_t length) {
    if (static_cast<std::uint64_t>(offset) != reserved_end) errno = EINVAL;
    reserved_end += static_cast<std::uint64_t>(length);
    return static_cast<std::uint64_t>(offset + length) == reserved_end ? 0 : -1;
  };
  reserved_end = 0;
  OutputFile file(folder / "c", {});
  for (const std::uint64_t bytes : {17u << 20, (64u << 20) + 1, 100u << 20, (1000u << 20) - 1, 1000u << 20}) {
    file.expect_bytes(bytes);
    CHECK(reserved_end >= bytes);
  }
  CHECK(reserved_end < 1300u << 20);
}

/// In a child process: an output of 66 MB on an ext4 of 120 MB, which has no room for the 128 MB that are reserved.
std::string write_to_small_ext4(const fs::path& folder) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return "skip: no private mounts here";
  }
  const fs::path image = folder / "image";
  const fs::path disk = folder / "disk";
  fs::create_directory(disk);
  write_bytes(image, "");
  fs::resize_file(image, 120u << 20);
  const auto shell = [](const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  };
  if (!shell("mkfs.ext4 -q -F " + image.string())) return "skip: no mkfs.ext4 here";
  if (!shell("mount -o loop " + image.string() + " " + disk.string()))
    return "skip: no loop device can be mounted here";
  try {
    const std::vector<std::byte> piece(3u << 20, std::byte{7});
    OutputFile file(disk / "c", {});
    for (std::uint64_t at = 0; at < 22; ++at) {
      file.expect_bytes(kHeaderBytes + (at + 1) * piece.size());
      file.write_at(kHeaderBytes + at * piece.size(), piece);
    }
    file.finish(kHeader);
    file.publish();
    const std::uint64_t found = fs::file_size(disk / "c");
    return found == kHeaderBytes + 22 * piece.size() ? "ok" : std::to_string(found) + " bytes";
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST_CASE("ext4 that runs out of space while it reserves") {
  const TemporaryFolder folder;
  const std::string result = in_child([&] { return write_to_small_ext4(folder.path()); });
  if (result.starts_with("skip")) {
    WARN(result);
  } else {
    CHECK(result == "ok");
  }
}

}  // namespace
