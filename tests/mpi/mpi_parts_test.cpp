// A result in parts that ranks write: the bytes of spmm, and nothing half visible.
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/exit_codes.hpp"
#include "mpi/mpi_place.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

const Words kKnown = {"c", "c.bin", "expected.bin", "report.json", "x.bin", "y.bin", "z.bin"};

Words words_for(const std::string& parts, Words options = {}) {
  options.insert(options.end(), {"-q", "--backend", "cpu", "--parts", parts, "x.bin", "y.bin", "c"});
  return options;
}

Json index_of_c() {
  return parse_report("parts-index", content_of("c/index.json"));
}

/// The folder holds what spmm writes as one file, its checksums are right, and there is nothing else.
void check_folder() {
  const ProcessResult cat = run_process({std::string(SPMM_BIN_DIR) + "/spmm-cat", "-q", "c", "c.bin"});
  INFO(cat.err);
  REQUIRE(cat.exit_code == 0);
  CHECK((content_of("c.bin") == content_of("expected.bin")));
  CHECK(other_names(kKnown).empty());
}

/// Names in the folder, or what has become of it.
std::string state_of_c() {
  std::string state;
  for (const auto& part : index_of_c()["parts"]) state += part.dump();
  return state;
}

/// A run that fails with one message and leaves the old folder alone.
std::string check_refused(int num_ranks, const Words& words, int code, const Variables& variables = {}) {
  const std::string before = state_of_c();
  const ProcessResult result = run_ranks(num_ranks, words, variables);
  INFO(result.err);
  CHECK(result.exit_code == code);
  const Words messages = own_messages(result.err);
  REQUIRE(messages.size() == 1);
  CHECK(state_of_c() == before);
  CHECK(other_names(kKnown).empty());
  return messages.front();
}

}  // namespace

TEST_CASE("any number of ranks and parts: spmm-cat makes the bytes of spmm") {
  struct Way {
    int num_ranks;
    const char* parts;
    std::size_t num_parts;
    const char* division;
    const char* records;
  };
  const MpiPlace place;
  place.set_operands(random_matrix(2048, 4, 6000, 65535, 31), random_matrix(2048, 4, 6000, 65535, 32));
  // Fewer parts than ranks, as many, and more, a multiple of the ranks and not.
  for (const Way& way :
       {Way{1, "3", 3, "rows", "read"}, Way{2, "5", 5, "rows", "read"}, Way{2, "4", 4, "inner", "sent"},
        Way{3, "8", 8, "inner", "read"}, Way{3, "1", 1, "rows", "sent"}, Way{4, "auto", 4, "rows", "read"},
        Way{7, "3", 3, "inner", "read"}, Way{7, "14", 14, "rows", "sent"}}) {
    INFO(way.num_ranks << " ranks, " << way.parts << " parts, " << way.division << ", " << way.records);
    const Variables variables = {{"SPMM_MPI_DIVISION", way.division}, {"SPMM_MPI_RECORDS", way.records}};
    const ProcessResult result = run_ranks(way.num_ranks, words_for(way.parts, {"--report", "report.json"}), variables);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    check_folder();
    const Json index = index_of_c();
    REQUIRE(index["parts"].size() == way.num_parts);
    CHECK(index["bytes"] == fs::file_size("expected.bin"));
    std::uint64_t most = 0;
    for (const Json& part : index["parts"]) most = std::max(most, part["blocks"].get<std::uint64_t>());
    CHECK(most < 3 * index["blocks"].get<std::uint64_t>() / way.num_parts);  // ranks are equal, not all parts
    const Json report = parse_report("report", content_of("report.json"));
    CHECK(report["c"]["parts"] == index["parts"]);
    CHECK(report["c"]["blocks"] == index["blocks"]);
    if (way.num_ranks > 1) CHECK(report["division"] == way.division);
  }
}

TEST_CASE("parts in steps, of an empty product, and of fewer block rows than parts") {
  const MpiPlace place;
  const auto [a, b] = operands_in_steps();
  place.set_operands(a, b);
  const Variables rows = {{"SPMM_MPI_DIVISION", "rows"}, {"SPMM_MPI_RECORDS", "sent"}};
  REQUIRE(run_ranks(7, words_for("10", {"--memory-limit", "9M", "--report", "report.json"}), rows).exit_code == 0);
  check_folder();
  CHECK(parse_report("report", content_of("report.json"))["steps"].get<int>() > 1);
  place.set_operands(random_matrix(8, 4, 4, 65535, 3), random_matrix(8, 4, 4, 65535, 4));
  REQUIRE(run_ranks(3, words_for("7", {"--durable", "--verify", "2"}), rows).exit_code == 0);
  check_folder();
  const spmm::BlockMatrix empty{.n = 64, .m = 4, .index = {}, .values = {}};
  place.set_operands(empty, empty);
  for (const char* const division : {"rows", "inner"}) {
    REQUIRE(run_ranks(2, words_for("3"), {{"SPMM_MPI_DIVISION", division}}).exit_code == 0);
    check_folder();
  }
}

TEST_CASE("a disk that fails on one rank leaves the old folder, one message and nothing else") {
  const MpiPlace place;
  place.set_operands(random_matrix(1024, 4, 3000, 65535, 61), random_matrix(1024, 4, 3000, 65535, 62));
  REQUIRE(run_ranks(2, words_for("2")).exit_code == 0);
  const auto check = [](const std::string& fault, int rank, const char* division) {
    INFO(fault << ", " << division);
    const std::string message =
        check_refused(3, words_for("6"), kIoError, {{"SPMM_MPI_FAULT", fault}, {"SPMM_MPI_DIVISION", division}});
    CHECK(message.find("[rank " + std::to_string(rank) + " of 3 on ") != std::string::npos);
    CHECK(message.find("c/part-00") != std::string::npos);
  };
  check("enospc:0:0", 0, "rows");
  check("enospc:2:1", 2, "rows");
  check("write-eio:1:0", 1, "inner");
  check("write-eio:1:3", 1, "rows");  // a header, where other ranks have all of theirs
  // A part that would have too many blocks is one rank's failure as well; the whole may have more than a file.
  const auto blocks = index_of_c()["blocks"].get<std::uint64_t>();
  const std::string limit = std::to_string(blocks / 3);
  const std::string message =
      check_refused(3, words_for("3"), kMemory, {{"SPMM_MPI_FAULT", "blocks:1:" + std::to_string(blocks / 10)}});
  CHECK(message.find("c/part-001.bin: the part has more than") != std::string::npos);
  CHECK(run_ranks(3, words_for("12"), {{"SPMM_MPI_FAULT", "blocks:1:" + limit}}).exit_code == 0);
  check_folder();
}

TEST_CASE("what is in the way of a folder of parts is refused before any work, and a second live run") {
  const MpiPlace place;
  place.set_operands(random_matrix(1024, 4, 3000, 65535, 61), random_matrix(1024, 4, 3000, 65535, 62));
  REQUIRE(run_ranks(1, words_for("1")).exit_code == 0);
  CHECK(check_refused(2, words_for("2", {"--no-clobber"}), kCannotCreate).find("exists") != std::string::npos);
  put_content("c/notes", "mine");
  CHECK(check_refused(2, words_for("2"), kCannotCreate).find("holds notes") != std::string::npos);
  fs::remove("c/notes");
  // The first run lives until the second one has been refused.
  ProcessOptions options;
  options.env = {{"SPMM_MPI_FAULT", "stop-write:1:0"}};
  options.timeout = kPatience;
  Process first(mpi_words(2, words_for("4"), options.env), options);
  const int stopped = wait_for_stopped("c");
  REQUIRE(stopped > 0);
  const Words hidden = other_names(kKnown);
  REQUIRE(hidden.size() == 1);
  for (const int num_ranks : {1, 2}) {
    const ProcessResult second = run_ranks(num_ranks, words_for("2"));
    INFO(second.err);
    CHECK(second.exit_code == kCannotCreate);
    REQUIRE(own_messages(second.err).size() == 1);
    CHECK(own_messages(second.err).front().find("another run writes it now: it holds ./" + hidden.front()) !=
          std::string::npos);
  }
  ::kill(stopped, SIGCONT);
  CHECK(first.wait().exit_code == 0);
  CHECK(index_of_c()["parts"].size() == 4);
  check_folder();
}

TEST_CASE("kill -9 of a rank leaves the old folder and one hidden one, which the next run removes") {
  const MpiPlace place;
  place.set_operands(random_matrix(1024, 4, 3000, 65535, 61), random_matrix(1024, 4, 3000, 65535, 62));
  REQUIRE(run_ranks(1, words_for("1")).exit_code == 0);
  for (const int killed : {0, 1}) {
    INFO("rank " << killed);
    const std::string before = state_of_c();
    ProcessOptions options;
    options.env = {{"SPMM_MPI_FAULT", "stop-write:" + std::to_string(killed) + ":1"}};
    options.timeout = kPatience;
    Process run(mpi_words(2, words_for("4"), options.env), options);
    const int stopped = wait_for_stopped("c");
    REQUIRE(stopped > 0);
    CHECK(rank_of(stopped) == killed);
    ::kill(stopped, SIGKILL);
    const ProcessResult result = run.wait();
    INFO(result.err);
    CHECK(result.exit_code == 137);
    CHECK(state_of_c() == before);
    CHECK(other_names(kKnown).size() <= 1);
    REQUIRE(run_ranks(2, words_for("3")).exit_code == 0);
    check_folder();
  }
}
