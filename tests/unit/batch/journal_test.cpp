// The journal: lines, torn lines, locks, and what counts as done.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "tools/batch/journal/journal.hpp"

namespace {

using namespace spmm;
using namespace spmm::batch;
using spmm::test::TemporaryFolder;
namespace fs = std::filesystem;

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A job whose three files exist.
Job job_in(const TemporaryFolder& folder) {
  Job job{.a = folder.file("a"), .b = folder.file("b"), .out = folder.file("c")};
  write_file(job.a, "aaaa");
  write_file(job.b, "bb");
  write_file(job.out, "result");
  return job;
}

JournalRecord record_of(const Job& job) {
  return {.key = key_of(job),
          .time_ms = 5,
          .exit_code = 0,
          .a = state_of(job.a).identity,
          .b = state_of(job.b).identity,
          .out = state_of(job.out).identity,
          .out_inode = state_of(job.out).inode,
          .verified = job.options.verify_blocks,
          .durable = job.options.durable,
          .options = options_text(job.options)};
}

Journal journal_with(const JournalRecord& record) {
  return {{record.key, record}};
}

}  // namespace

TEST_CASE("a journal line comes back, a torn one does not") {
  const JournalRecord record{.key = "/data/a\t/data/b\t/data/c d.bin\ttranspose-b",
                             .time_ms = 1'700'000'000'123,
                             .exit_code = 65,
                             .a = {.size = 10, .mtime_ns = -5},
                             .b = {.size = 1ULL << 40, .mtime_ns = 7},
                             .out = {.size = 0, .mtime_ns = 0},
                             .out_inode = 1234,
                             .verified = cli::kVerifyFull,
                             .durable = true,
                             .saturated_elements = 77,
                             .options = "cpu auto 7"};
  std::string line = journal_line(record);
  REQUIRE(line.ends_with('\n'));
  line.pop_back();
  const auto back = parse_journal_line(line);
  REQUIRE(back);
  CHECK(back->key == record.key);
  CHECK(back->time_ms == record.time_ms);
  CHECK(back->exit_code == 65);
  CHECK(back->a == record.a);
  CHECK(back->b == record.b);
  CHECK(back->out == record.out);
  CHECK(back->out_inode == 1234);
  CHECK(back->verified == cli::kVerifyFull);
  CHECK(back->durable);
  CHECK(back->saturated_elements == 77);
  CHECK(back->options == record.options);
  for (std::size_t length = 0; length < line.size(); ++length) CHECK_FALSE(parse_journal_line(line.substr(0, length)));
  for (const char* other : {"", ".", "done.3", "done.3\t.", "nonsense\t.", "done\t1\t2\t."})
    CHECK_FALSE(parse_journal_line(other));
  for (const char* word : {"done.3", "done.2", "x"}) {  // what failed is not done, and other versions are not read
    CHECK_FALSE(parse_journal_line(word + line.substr(line.find('\t'))));
  }
}

TEST_CASE("a product is its paths and transposes, and never two lines") {
  const Job job{.a = "/a", .b = "/b", .out = "/c"};
  Job transposed = job;
  transposed.options.transpose_a = true;
  CHECK(key_of(job) == "/a\t/b\t/c");
  CHECK(key_of(transposed) != key_of(job));
  CHECK(key_of({.a = "/new\nline/a", .b = "/b", .out = "/c"}).find('\n') == std::string::npos);
}

TEST_CASE("a torn last line is ignored and swallows nothing that follows") {
  const TemporaryFolder folder;
  const Job job = job_in(folder);
  Job other = job;
  other.out += "2";
  const std::string path = folder.file("journal");
  {
    const JournalFolder journal(path, {});
    const io::Descriptor file = journal.open_writer("cpu");
    JournalWriter(file.get()).append(record_of(job));
  }
  const std::string file = path + "/1-of-1.cpu.journal";
  write_file(file, content_of(file) + "done.3\t0123");
  const JournalFolder journal(path, {});
  const io::Descriptor again = journal.open_writer("cpu");
  JournalWriter(again.get()).append(record_of(other));
  const Journal read = journal.read();
  CHECK(read.size() == 2);
  CHECK(read.contains(key_of(job)));
  CHECK(read.contains(key_of(other)));
}

TEST_CASE("of two records the later counts, whichever file holds it") {
  const TemporaryFolder folder;
  const Job job = job_in(folder);
  JournalRecord early = record_of(job);
  JournalRecord late = early;
  early.exit_code = 65;
  late.time_ms = early.time_ms + 1;
  for (const bool swapped : {false, true}) {
    const JournalFolder journal(folder.file(swapped ? "j1" : "j2"), {});
    const io::Descriptor x = journal.open_writer(swapped ? "b" : "a");
    const io::Descriptor y = journal.open_writer(swapped ? "a" : "b");
    JournalWriter(x.get()).append(late);
    JournalWriter(y.get()).append(early);
    CHECK(journal.read().at(early.key).exit_code == 0);
  }
}

TEST_CASE("one run of the whole list, or different shards, hold a journal") {
  const TemporaryFolder folder;
  const std::string path = folder.file("journal");
  const auto refused = [&](const Shard& shard) {
    try {
      const JournalFolder second(path, shard);
      return std::string();
    } catch (const OutputError& e) {
      return std::string(e.what());
    }
  };
  {
    const JournalFolder all(path, {});
    CHECK(refused({}).find("in use by process " + std::to_string(::getpid())) != std::string::npos);
    CHECK(refused({.index = 1, .count = 4}) != "");
  }
  const JournalFolder second(path, {.index = 1, .count = 4});
  CHECK(refused({.index = 0, .count = 4}) == "");
  CHECK(refused({.index = 1, .count = 4}) != "");
  CHECK(refused({}) != "");
}

TEST_CASE("done is: output there with its size, inputs the same") {
  const TemporaryFolder folder;
  const Job job = job_in(folder);
  const Journal journal = journal_with(record_of(job));
  CHECK(is_done(journal, job));
  CHECK_FALSE(is_done({}, job));

  Job renamed = job;
  renamed.out = job.a;
  CHECK_FALSE(is_done(journal, renamed));

  const auto before = fs::last_write_time(job.b);
  fs::last_write_time(job.b, before + std::chrono::hours(1));  // the same bytes at another time
  CHECK_FALSE(is_done(journal, job));
  fs::last_write_time(job.b, before);
  CHECK(is_done(journal, job));
  write_file(job.out, "short");
  CHECK_FALSE(is_done(journal, job));
  fs::remove(job.out);
  CHECK_FALSE(is_done(journal, job));
}

TEST_CASE("done is: what the job asks for now was promised then") {
  const TemporaryFolder folder;
  Job job = job_in(folder);
  const auto is_done_after = [&](std::uint64_t verified, bool durable) {
    Job before = job;
    before.options.verify_blocks = verified;
    before.options.durable = durable;
    return is_done(journal_with(record_of(before)), job);
  };
  for (const std::uint64_t asked : {std::uint64_t{0}, std::uint64_t{10}, cli::kVerifyFull}) {
    job.options.verify_blocks = asked;
    for (const std::uint64_t verified : {std::uint64_t{0}, std::uint64_t{10}, cli::kVerifyFull}) {
      INFO(asked << " after " << verified);
      CHECK(is_done_after(verified, false) == (verified >= asked));
    }
  }
  job.options.verify_blocks = 0;
  job.options.durable = true;
  CHECK_FALSE(is_done_after(0, false));
  CHECK(is_done_after(0, true));
  job.options.durable = false;
  job.options.on_saturation = OnSaturation::error;
  JournalRecord record = record_of(job);
  for (const auto& [saturated, done] : {std::pair{std::uint64_t{0}, true}, {1, false}}) {
    record.saturated_elements = saturated;
    CHECK(is_done(journal_with(record), job) == done);
  }
  job.options.on_saturation = OnSaturation::report;
  job.options.backend = Backend::cpu;  // the bytes are the same
  job.options.kernel = "reference";
  CHECK(is_done_after(0, true));
}

TEST_CASE("an output that something else wrote is not done, though its size is the same") {
  const TemporaryFolder folder;
  const Job job = job_in(folder);
  const Journal journal = journal_with(record_of(job));
  const auto written = fs::last_write_time(job.out);
  REQUIRE(is_done(journal, job));
  fs::last_write_time(job.out, written + std::chrono::nanoseconds(1));  // another run that wrote into it
  CHECK_FALSE(is_done(journal, job));
  fs::rename(job.out, folder.file("kept"));
  write_file(job.out, "RESULT");
  fs::last_write_time(job.out, written);  // another file, moved there
  CHECK_FALSE(is_done(journal, job));
  fs::rename(folder.file("kept"), job.out);
  fs::last_write_time(job.out, written);
  CHECK(is_done(journal, job));
}

TEST_CASE("an output of another size is not done, whatever else is the same") {
  const TemporaryFolder folder;
  const Job job = job_in(folder);
  const Journal journal = journal_with(record_of(job));
  REQUIRE(is_done(journal, job));
  write_file(job.out, "short");
  CHECK_FALSE(is_done(journal, job));
}

TEST_CASE("a line that was torn on a full disk swallows nothing that the same run writes later") {
  const TemporaryFolder folder;
  const Job job = job_in(folder);
  const std::string path = folder.file("journal");
  const JournalFolder journal(path, {});
  const io::Descriptor file = journal.open_writer("cpu");
  JournalWriter writer(file.get());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto signal_before = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{.rlim_cur = 30, .rlim_max = before.rlim_max};  // the first bytes of a line
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
  CHECK_THROWS_AS(writer.append(record_of(job)), IoError);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, signal_before);
  REQUIRE(content_of(path + "/1-of-1.cpu.journal").size() == 30);
  writer.append(record_of(job));
  CHECK(journal.read().contains(key_of(job)));
}

TEST_CASE("a failure counts while inputs and options stay the same") {
  const TemporaryFolder folder;
  Job job = job_in(folder);
  JournalRecord record = record_of(job);
  record.exit_code = 65;
  Journal journal = journal_with(record);
  CHECK(has_failed(journal, job));
  CHECK_FALSE(is_done(journal, job));
  Job changed = job;
  changed.options.kernel = "reference";
  CHECK_FALSE(has_failed(journal, changed));
  changed = job;
  changed.options.on_saturation = OnSaturation::error;
  CHECK_FALSE(has_failed(journal, changed));
  for (const auto& [code, counts] : {std::pair{74, false}, {73, false}, {71, false}, {70, true}, {65, true}}) {
    INFO(code);
    journal.at(key_of(job)).exit_code = code;
    CHECK(has_failed(journal, job) == counts);  // another day there may be space
  }
  write_file(job.a, "repaired");
  CHECK_FALSE(has_failed(journal, job));
}
