// Where an output may go and what it leaves there: permissions, links, devices, refusals, races.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/files/file_sink.hpp"
#include "io/files/output_file.hpp"
#include "io/files/paths.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using io::OutputFile;
using io::TempKind;
namespace fs = std::filesystem;

const std::string kContent = header_bytes(4, 4, 0);

void put(const fs::path& path, TempKind kind, const FileSinkOptions& options = {}) {
  OutputFile file(path, options, kind);
  file.finish(kHeader);
  file.publish();
}

/// Checks that an output is refused when it is opened; returns the message.
std::string refused(const fs::path& path, const FileSinkOptions& options = {}) {
  const std::string message = message_of<OutputError>([&] { open_file_sink(path, 4, options); });
  INFO(message);
  CHECK(names_place_and_hint(message, path));
  return message;
}

/// The mask of the process while it lives.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t before_;
};

TEST_CASE("a new file gets what the umask allows, an old one keeps its bits") {
  const TemporaryFolder folder;
  for (const TempKind kind : {TempKind::automatic, TempKind::named}) {
    for (const unsigned mask : {022u, 077u, 002u, 0u}) {
      const Umask umask(mask);
      put(folder / "new", kind);
      CHECK(permissions_of(folder / "new") == (0666u & ~mask));
      fs::remove(folder / "new");
      for (const unsigned bits : {0600u, 0640u, 0664u, 0755u, 0666u}) {
        write_bytes(folder / "old", "old");
        fs::permissions(folder / "old", static_cast<fs::perms>(bits));
        put(folder / "old", kind);
        CHECK(permissions_of(folder / "old") == bits);
        CHECK(bytes_of(folder / "old") == kContent);
      }
    }
  }
  const Umask umask(027);
  write_matrix(folder / "matrix", {.n = 4, .m = 4, .index = {}, .values = {}});
  CHECK(permissions_of(folder / "matrix") == 0640);
  CHECK(folder.names() == std::vector<std::string>{"matrix", "old"});
}

TEST_CASE("a symbolic link stays and what it points to is replaced") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "data");
  for (const TempKind kind : {TempKind::automatic, TempKind::named}) {
    for (const bool exists : {true, false}) {
      for (const fs::path& points_to : {fs::path("data/real"), folder / "data/real"}) {
        INFO(points_to << (exists ? "" : ", dangling"));
        fs::create_symlink(points_to, folder / "link");
        fs::create_symlink("link", folder / "chain");
        if (exists) write_bytes(folder / "data/real", "old");
        put(folder / "chain", kind);
        CHECK(fs::read_symlink(folder / "link") == points_to);
        CHECK(fs::is_symlink(folder / "chain"));
        CHECK_FALSE(fs::is_symlink(folder / "data/real"));
        CHECK(bytes_of(folder / "data/real") == kContent);
        CHECK(folder.names() == std::vector<std::string>{"chain", "data", "link"});
        CHECK(names_in(folder / "data") == std::vector<std::string>{"real"});
        for (const char* name : {"chain", "link", "data/real"}) fs::remove(folder / name);
      }
    }
  }
}

TEST_CASE("no-clobber: refused when opened, and refused at the end if the file came meanwhile") {
  const TemporaryFolder folder;
  write_bytes(folder / "old", "old");
  CHECK(has(refused(folder / "old", {.no_clobber = true}), "the file exists"));
  fs::create_symlink("old", folder / "link");
  CHECK(has(refused(folder / "link", {.no_clobber = true}), "the file exists"));
  CHECK(bytes_of(folder / "old") == "old");
  for (const TempKind kind : {TempKind::automatic, TempKind::named}) {
    put(folder / "new", kind, {.no_clobber = true});
    CHECK(bytes_of(folder / "new") == kContent);
    fs::remove(folder / "new");
    {
      OutputFile file(folder / "new", {.no_clobber = true}, kind);
      file.finish(kHeader);
      write_bytes(folder / "new", "theirs");
      const std::string message = message_of<OutputError>([&] { file.publish(); });
      CHECK(names_place_and_hint(message, folder / "new"));
      CHECK(has(message, "the file exists"));
    }
    CHECK(bytes_of(folder / "new") == "theirs");
    CHECK(folder.names() == std::vector<std::string>{"link", "new", "old"});
    fs::remove(folder / "new");
  }
}

TEST_CASE("what happens to the target meanwhile") {
  const TemporaryFolder folder;
  for (const TempKind kind : {TempKind::automatic, TempKind::named}) {
    {
      OutputFile file(folder / "c", {}, kind);
      file.finish(kHeader);
      write_bytes(folder / "c", "came meanwhile");
      file.publish();
      CHECK(bytes_of(folder / "c") == kContent);
    }
    {
      OutputFile file(folder / "c", {}, kind);
      file.finish(kHeader);
      fs::remove(folder / "c");
      file.publish();
      CHECK(bytes_of(folder / "c") == kContent);
    }
    {
      OutputFile file(folder / "c", {}, kind);
      file.finish(kHeader);
      fs::remove(folder / "c");
      fs::create_directory(folder / "c");
      const std::string message = message_of<OutputError>([&] { file.publish(); });
      CHECK(names_place_and_hint(message, folder / "c"));
      CHECK(has(message, "Is a directory"));
    }
    CHECK(folder.names() == std::vector<std::string>{"c"});
    fs::remove(folder / "c");
    fs::create_directory(folder / "gone");
    {
      OutputFile file(folder / "gone/c", {}, kind);
      file.finish(kHeader);
      fs::remove_all(folder / "gone");
      CHECK_THROWS_AS(file.publish(), OutputError);
    }
    CHECK(folder.names().empty());
  }
}

TEST_CASE("a relative path means the folder of the time of opening") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "elsewhere");
  const fs::path before = fs::current_path();
  for (const TempKind kind : {TempKind::automatic, TempKind::named}) {
    fs::current_path(folder.path());
    OutputFile file("c", {}, kind);
    fs::current_path(folder / "elsewhere");
    file.finish(kHeader);
    file.publish();
    fs::current_path(before);
    CHECK(bytes_of(folder / "c") == kContent);
    CHECK(names_in(folder / "elsewhere").empty());
    fs::remove(folder / "c");
  }
}

TEST_CASE("names as long as the file system allows") {
  const TemporaryFolder folder;
  std::string letters;
  while (letters.size() + 2 <= 255) letters += "\xC3\xA4";  // two bytes each
  for (const std::string& name : {std::string(255, 'n'), letters, "x" + letters}) {
    for (const TempKind kind : {TempKind::automatic, TempKind::named}) {
      put(folder / name, kind);
      put(folder / name, kind);  // replaces
      CHECK(folder.names() == std::vector<std::string>{name});
      fs::remove(folder / name);
    }
  }
  {
    const OutputFile file(folder / ("x" + letters), {}, TempKind::named);
    const std::string temp_name = folder.names().at(0);  // cut between two letters
    CHECK(temp_name.substr(0, temp_name.rfind(".spmm-")) == ".x" + letters.substr(0, 236));
  }
  CHECK(has(refused(folder / std::string(256, 'n')), "too long"));
}

TEST_CASE("targets that cannot become the output are refused at once") {
  const TemporaryFolder folder;
  write_bytes(folder / "file", "old");
  fs::create_directory(folder / "folder");
  fs::create_symlink("folder", folder / "to_folder");
  fs::create_symlink("loop", folder / "loop");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  fs::create_symlink("pipe", folder / "to_pipe");
  const int socket_fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(socket_fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  ::close(socket_fd);
  const auto names = folder.names();

  CHECK(has(refused(folder / "folder"), "is a directory"));
  CHECK(has(refused(folder / "folder/"), "is a directory"));
  CHECK(has(refused(folder / "to_folder"), "is a directory"));
  CHECK(has(refused(folder / "."), "is a directory"));
  CHECK(has(refused(folder / "pipe"), "is a pipe (FIFO)"));
  CHECK(has(refused(folder / "to_pipe"), "is a pipe (FIFO)"));
  CHECK(has(refused(folder / "socket"), "is a socket"));
  CHECK(has(refused(folder / "loop"), "symbolic links"));
  CHECK(has(refused(folder / "missing/c"), "mkdir -p " + (folder / "missing").string()));
  CHECK(has(refused(folder / "new/"), "names a folder"));
  CHECK(has(refused(folder / "file/c"), "Not a directory"));
  CHECK(has(message_of<OutputError>([] { open_file_sink("", 4, {}); }), "the path is empty"));
  if (fs::exists("/dev/ptmx")) CHECK(has(refused("/dev/ptmx"), "cannot seek"));
  const std::string no_terminal = in_child([&] {
    ::setsid();
    return message_of<OutputError>([] { open_file_sink("/dev/tty", 4, {}); });
  });
  CHECK(has(no_terminal, "cannot open the device"));
  CHECK(has(
      message_of<OutputError>([&] { write_matrix(folder / "folder", {.n = 4, .m = 4, .index = {}, .values = {}}); }),
      "is a directory"));
  CHECK(folder.names() == names);
  CHECK(bytes_of(folder / "file") == "old");
}

TEST_CASE("missing permissions are found before the work starts") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "closed", static_cast<fs::perms>(0555));
  fs::create_directory(folder / "sticky");
  write_bytes(folder / "sticky/theirs", "old");
  fs::permissions(folder / "sticky/theirs", static_cast<fs::perms>(0666));
  fs::permissions(folder / "sticky", static_cast<fs::perms>(01777));
  write_bytes(folder / "read_only", "old");
  fs::permissions(folder / "read_only", static_cast<fs::perms>(0444));
  const auto message_for = [&](const fs::path& path) {
    return in_child([&] {
      drop_rights();
      return message_of<OutputError>([&] { open_file_sink(path, 4, {}); });
    });
  };
  const std::string closed = message_for(folder / "closed/c");
  CHECK(names_place_and_hint(closed, folder / "closed/c"));
  CHECK(has(closed, "Permission denied"));
  const std::string read_only = message_for(folder / "read_only");
  CHECK(names_place_and_hint(read_only, folder / "read_only"));
  CHECK(has(read_only, "chmod u+w"));
  if (::geteuid() == 0) {  // else there is no second user to own the file
    const std::string sticky = message_for(folder / "sticky/theirs");
    CHECK(names_place_and_hint(sticky, folder / "sticky/theirs"));
    CHECK(has(sticky, "another user"));
  }
  fs::permissions(folder / "closed", static_cast<fs::perms>(0755));
}

TEST_CASE("space that was reserved for a long file and not used is given back") {
  constexpr std::uint64_t kBytes = 70u << 20;  // long enough to be reserved
  const TemporaryFolder folder;
  const fs::path path = folder / "long.bin";
  const std::vector<std::byte> piece(1u << 20, std::byte{7});
  for (const TempKind kind : {TempKind::automatic, TempKind::named}) {
    OutputFile file(path, {}, kind);
    for (std::uint64_t at = 0; at < kBytes; at += piece.size()) {
      file.expect_bytes(kHeaderBytes + at + piece.size());
      file.write_at(kHeaderBytes + at, piece);
    }
    file.finish(kHeader);
    file.publish();
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK(fs::file_size(path) == kHeaderBytes + kBytes);
    CHECK(static_cast<std::uint64_t>(info.st_blocks) * 512 < kBytes + (2u << 20));
  }
}

TEST_CASE("same file or not") {
  const TemporaryFolder folder;
  write_bytes(folder / "a", "1");
  write_bytes(folder / "b", "1");
  fs::create_directory(folder / "sub");
  fs::create_hard_link(folder / "a", folder / "hard");
  fs::create_symlink("a", folder / "soft");
  fs::create_symlink("new", folder / "dangling");
  fs::create_symlink("sub", folder / "sub_link");
  CHECK(same_file(folder / "a", folder / "a"));
  CHECK(same_file(folder / "a", folder / "sub/../a"));
  CHECK(same_file(folder / "a", folder / "hard"));
  CHECK(same_file(folder / "a", folder / "soft"));
  CHECK(same_file(folder / "soft", folder / "hard"));
  CHECK_FALSE(same_file(folder / "a", folder / "b"));
  CHECK_FALSE(same_file(folder / "a", folder / "new"));
  CHECK_FALSE(same_file(folder / "a", folder / "dangling"));
  CHECK(same_file(folder / "new", folder / "new"));
  CHECK(same_file(folder / "new", folder / "dangling"));
  CHECK(same_file(folder / "sub/new", folder / "sub_link/new"));
  CHECK_FALSE(same_file(folder / "new", folder / "sub/new"));
  CHECK_FALSE(same_file(folder / "new", folder / "other"));
  CHECK(same_file(folder / "no/x", folder / "no/./x"));
  CHECK_FALSE(same_file(folder / "no/x", folder / "no/y"));
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  CHECK(same_file("a", folder / "a"));
  CHECK(same_file("new", folder / "new"));
  CHECK(same_file("./new", "new"));
  CHECK_FALSE(same_file("new", "a"));
  fs::current_path(before);
}

}  // namespace
