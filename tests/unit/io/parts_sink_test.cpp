// A folder of parts: written, exchanged, refused, killed.
#include "io/parts/sink.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "base/records/errors.hpp"
#include "base/temporary_names.hpp"
#include "io/formats/parts_index.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/wrapped_calls.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using io::TempKind;
namespace fs = std::filesystem;

constexpr std::uint32_t kSide = 4;
constexpr std::uint32_t kRows = 100;

/// Gives the table back as it was.
struct TableRestored {
  SystemCalls before = system_calls;
  TableRestored() = default;
  TableRestored(const TableRestored&) = delete;
  TableRestored& operator=(const TableRestored&) = delete;
  ~TableRestored() { system_calls = before; }
};

/// `count` records that lie in block rows from `row` on, one in each.
std::string records_from(std::uint32_t row, std::uint32_t count) {
  std::string records;
  for (std::uint32_t x = 0; x < count; ++x) records += record32(kSide, row + x, x);
  return records;
}

/// Writes 10 + 20 blocks in two parts, in turns, and publishes them where asked.
void write_parts(const fs::path& path, const FileSinkOptions& options = {}, TempKind temp = TempKind::automatic,
                 bool publish = true) {
  const std::string first = records_from(0, 10);
  const std::string second = records_from(50, 20);
  const std::uint64_t record = output_record_bytes(kSide);
  const auto sink =
      io::open_tuned_parts_sink(path, kSide, 2, options, {.temp = temp, .num_writers = 2, .piece_bytes = 100});
  const std::vector<BlockRows> ranges = {{0, 50}, {50, kRows}};
  sink->set_ranges(ranges);
  for (std::uint64_t x = 0; x < 10; ++x) {
    sink->append_to(0, std::as_bytes(std::span(first)).subspan(x * record, record), nullptr);
    sink->append_to(1, std::as_bytes(std::span(second)).subspan(2 * x * record, 2 * record), nullptr);
  }
  sink->finish({.n = kRows * kSide, .m = kSide, .num_blocks = 30});
  if (publish) sink->publish();
}

const std::vector<std::string> kNames = {"index.json", "part-000.bin", "part-001.bin"};

void check_complete(const fs::path& folder) {
  CHECK(names_in(folder) == kNames);
  CHECK((read_bytes(folder / "part-000.bin") == header_bytes(kRows * kSide, kSide, 10) + records_from(0, 10)));
  CHECK((read_bytes(folder / "part-001.bin") == header_bytes(kRows * kSide, kSide, 20) + records_from(50, 20)));
  CHECK(read_product(folder).index.size() == 30);
}

TEST_CASE("parts: files that grow in turns are complete, new and in place of an old folder") {
  const TempFolder folder;
  for (const TempKind temp : {TempKind::automatic, TempKind::named}) {
    for (int i = 0; i < 2; ++i) {
      for (const bool durable : {false, true}) {
        write_parts(folder / "c", {.durable = durable}, temp);
        check_complete(folder / "c");
        CHECK(folder.names() == std::vector<std::string>{"c"});
      }
    }
    fs::remove_all(folder / "c");
  }
}

TEST_CASE("parts: records at their places, in any order, give the same folder; a gap does not") {
  const TempFolder folder;
  const std::string first = records_from(0, 10);
  const std::string second = records_from(50, 20);
  const std::uint64_t record = output_record_bytes(kSide);
  const std::vector<BlockRows> ranges = {{0, 50}, {50, kRows}};
  for (const unsigned writers : {0u, 3u}) {
    for (const bool gap : {false, true}) {
      const auto sink = io::open_tuned_parts_sink(folder / "c", kSide, 2, {}, {.num_writers = writers});
      REQUIRE(sink->takes_places());
      sink->set_ranges(ranges);
      for (std::uint64_t x = 10; x-- > 0;) {
        sink->append_at(1, 2 * x, std::as_bytes(std::span(second)).subspan(2 * x * record, 2 * record), nullptr);
        if (gap && x == 3) continue;
        sink->append_at(0, x, std::as_bytes(std::span(first)).subspan(x * record, record), nullptr);
      }
      const MatrixHeader header{.n = kRows * kSide, .m = kSide, .num_blocks = 30};
      if (gap) {
        CHECK_THROWS_AS(sink->finish(header), std::logic_error);
        continue;
      }
      sink->finish(header);
      sink->publish();
      check_complete(folder / "c");
    }
  }
}

TEST_CASE("parts: an unpublished folder leaves nothing, and the old one stays") {
  const TempFolder folder;
  for (const TempKind temp : {TempKind::automatic, TempKind::named}) {
    write_parts(folder / "c", {}, temp, false);
    CHECK(folder.names().empty());
    write_parts(folder / "c");
    write_parts(folder / "c", {}, temp, false);
    check_complete(folder / "c");
    CHECK(folder.names() == std::vector<std::string>{"c"});
    fs::remove_all(folder / "c");
  }
}

TEST_CASE("parts: what comes into the old folder while the new one is written is not lost") {
  const TempFolder folder;
  write_parts(folder / "c");
  const auto sink = open_parts_sink(folder / "c", kSide, 1, {});
  sink->finish({.n = kRows * kSide, .m = kSide, .num_blocks = 0});
  write_bytes(folder / "c/notes", "mine");
  const std::string message = message_of<OutputError>([&] { sink->publish(); });
  CHECK(names_place_and_hint(message, folder / "c"));
  CHECK(contains(message, "holds notes"));
  CHECK(read_bytes(folder / "c/notes") == "mine");
  CHECK(fs::exists(folder / "c/part-001.bin"));
}

TEST_CASE("parts: a folder or a file that comes meanwhile, and an old one that goes") {
  const TempFolder folder;
  const auto finished = [&](const FileSinkOptions& options) {
    auto sink = open_parts_sink(folder / "c", kSide, 1, options);
    sink->finish({.n = kRows * kSide, .m = kSide, .num_blocks = 0});
    return sink;
  };
  {
    const auto sink = finished({});
    write_parts(folder / "c");
    sink->publish();
    CHECK(names_in(folder / "c").size() == 2);
  }
  {
    const auto sink = finished({});
    fs::remove_all(folder / "c");
    sink->publish();
    CHECK(names_in(folder / "c").size() == 2);
    fs::remove_all(folder / "c");
  }
  for (const bool no_clobber : {false, true}) {
    const auto sink = finished({.no_clobber = no_clobber});
    write_bytes(folder / "c", "theirs");
    CHECK_THROWS_AS(sink->publish(), OutputError);
    CHECK(read_bytes(folder / "c") == "theirs");
    fs::remove(folder / "c");
  }
  CHECK(folder.names().empty());
}

TEST_CASE(
    "parts: where names cannot be exchanged an existing folder is refused before any work, a new one is written") {
  const TempFolder folder;
  write_parts(folder / "c");
  const TableRestored table;
  system_calls.renameat2 = [](int, const char*, int, const char*, unsigned) {
    errno = EINVAL;
    return -1;
  };
  const std::string message = message_of<OutputError>([&] { open_parts_sink(folder / "c", kSide, 2, {}); });
  CHECK(names_place_and_hint(message, folder / "c"));
  CHECK(contains(message, "cannot be replaced at once on this file system"));
  check_complete(folder / "c");
  write_parts(folder / "d");
  check_complete(folder / "d");
  CHECK(folder.names() == std::vector<std::string>{"c", "d"});
}

TEST_CASE("parts: the whole may have more blocks than a file holds, a part may not") {
  const TempFolder folder;
  struct LowLimit {
    LowLimit() { most_output_blocks = 20; }
    ~LowLimit() { most_output_blocks = kMostOutputBlocks; }
  } const low;
  write_parts(folder / "c");
  check_complete(folder / "c");
  most_output_blocks = 19;
  const std::string message = message_of<OutOfMemory>([&] { write_parts(folder / "d"); });
  CHECK(contains(message, "part-001.bin: the part has more than 19 non-zero blocks"));
  CHECK(folder.names() == std::vector<std::string>{"c"});
}

TEST_CASE("parts: records outside their range, and calls in the wrong order, are errors of the program") {
  const TempFolder folder;
  const auto sink = io::open_tuned_parts_sink(folder / "c", kSide, 2, {}, {});
  const std::vector<BlockRows> ranges = {{0, 5}, {5, 100}};
  const std::string records = records_from(4, 2);
  CHECK_THROWS_AS(sink->set_ranges(std::span(ranges).first(1)), std::logic_error);
  sink->set_ranges(ranges);
  CHECK_THROWS_AS(sink->append_to(0, std::as_bytes(std::span(records)), nullptr), std::logic_error);
  CHECK_THROWS_AS(sink->append_to(1, std::as_bytes(std::span(records)), nullptr), std::logic_error);
  CHECK_THROWS_AS(sink->publish(), std::logic_error);
  CHECK_THROWS_AS(sink->finish({.n = 400, .m = kSide, .num_blocks = 1}), std::logic_error);
  CHECK_THROWS_AS(open_parts_sink(folder / "d", kSide, 0, {}), std::logic_error);
  CHECK_THROWS_AS(open_parts_sink(folder / "d", kSide, 257, {}), std::logic_error);
}

TEST_CASE("parts: a reader refuses a folder whose files do not fit its index") {
  const TempFolder folder;
  write_parts(folder / "c");
  const std::string part = read_bytes(folder / "c/part-001.bin");
  write_bytes(folder / "c/part-001.bin", header_bytes(kRows * kSide, kSide, 10) + records_from(50, 10));
  CHECK(contains(message_of<FormatError>([&] { read_product(folder / "c"); }), "the index says"));
  write_bytes(folder / "c/part-001.bin", part.substr(1));
  CHECK_THROWS_AS(read_product(folder / "c"), FormatError);
  fs::remove(folder / "c/part-001.bin");
  CHECK_THROWS_AS(read_product(folder / "c"), InputError);
  fs::remove(folder / "c/index.json");
  CHECK(contains(message_of<FormatError>([&] { read_product(folder / "c"); }), "without an index"));
  CHECK_THROWS_AS(read_matrix(folder / "c"), InputError);  // operands are files
}

TEST_CASE("parts: SIGKILL at any moment leaves the old folder or the new one, and one hidden folder at most") {
  if (!kForksWithThreads) {  // earlier tests leave the library's idle workers, and the child starts writers
    WARN("not with this sanitizer or emulator");
    return;
  }
  const TempFolder folder;
  write_parts(folder / "c");
  std::mt19937 random(5);
  for (const TempKind temp : {TempKind::automatic, TempKind::named}) {
    for (int i = 0; i < 30; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        while (true) write_parts(folder / "c", {}, temp);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 6000));
      ::kill(child, SIGKILL);
      int status = 0;
      ::waitpid(child, &status, 0);
      REQUIRE(WIFSIGNALED(status));
      check_complete(folder / "c");
      CHECK(folder.names().size() <= 2);
    }
  }
  write_parts(folder / "c");
  CHECK(folder.names() == std::vector<std::string>{"c"});
}

TEST_CASE("parts: a signal handler removes the temporary folder with what is in it") {
  const TempFolder folder;
  for (const TempKind temp : {TempKind::automatic, TempKind::named}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto sink = io::open_tuned_parts_sink(folder / "c", kSide, 3, {}, {.temp = temp, .num_writers = 0});
      sink->finish({.n = kRows * kSide, .m = kSide, .num_blocks = 0});  // the parts have names now
      const bool is_there = folder.names().size() == 1;
      remove_temporary_files();
      ::_exit(is_there ? 75 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 75);
    CHECK(folder.names().empty());
  }
}

TEST_CASE(
    "parts: a run that wants to be alone is refused while another one lives, and removes what a killed one left") {
  const TempFolder folder;
  const auto open = [&](io::OtherRuns other_runs) {
    return io::open_tuned_parts_sink(folder / "c", kSide, 1, {}, {.other_runs = other_runs});
  };
  {
    const auto first = open(io::OtherRuns::allowed);
    const std::string message = message_of<OutputError>([&] { open(io::OtherRuns::refused); });
    CHECK(names_place_and_hint(message, folder / "c"));
    CHECK(contains(message, "another run writes it now: it holds "));
    CHECK(folder.names().size() == 1);
    CHECK_NOTHROW(open(io::OtherRuns::allowed));
  }
  CHECK(folder.names().empty());
  fs::create_directory(folder / ".c.spmm-AbCd12.tmp");
  write_bytes(folder / ".c.spmm-AbCd12.tmp/part-000.bin", "x");
  const auto alone = open(io::OtherRuns::refused);
  CHECK(folder.names().size() == 1);
  CHECK_THROWS_AS(open(io::OtherRuns::refused), OutputError);
  alone->finish({.n = kRows * kSide, .m = kSide, .num_blocks = 0});
  alone->publish();
  CHECK(folder.names() == std::vector<std::string>{"c"});
}

TEST_CASE("parts: folders that look like leftovers but hold other files keep these") {
  const TempFolder folder;
  fs::create_directory(folder / ".c.spmm-AbCd12.tmp");
  write_bytes(folder / ".c.spmm-AbCd12.tmp/part-000.bin", "x");
  fs::create_directory(folder / ".c.spmm-AbCd13.tmp");
  write_bytes(folder / ".c.spmm-AbCd13.tmp/notes", "mine");
  fs::create_directory(folder / ".d.spmm-AbCd12.tmp");
  fs::create_directory(folder / ".c.spmm-AbCd1.tmp");
  write_parts(folder / "c");
  CHECK(folder.names() ==
        std::vector<std::string>{".c.spmm-AbCd1.tmp", ".c.spmm-AbCd13.tmp", ".d.spmm-AbCd12.tmp", "c"});
  CHECK(read_bytes(folder / ".c.spmm-AbCd13.tmp/notes") == "mine");
}

}  // namespace
