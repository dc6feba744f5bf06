// Any number of ranks writes the bytes of spmm.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "mpi/mpi_place.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;

/// Runs one product with records that are read by the ranks and with records that are sent to them; fails the test
/// where a run fails or the bytes differ. The report is that of the latter.
void check_ranks(int num_ranks, std::vector<std::string> options, Variables variables = {}) {
  options.insert(options.end(), {"-q", "--backend", "cpu", "x.bin", "y.bin", "z.bin"});
  INFO(num_ranks << " ranks");
  const ProcessResult read = run_ranks(num_ranks, options, variables);
  INFO("records read: " << read.err);
  REQUIRE(read.exit_code == 0);
  CHECK(content_of("z.bin") == content_of("expected.bin"));
  variables.emplace_back("SPMM_MPI_RECORDS", "sent");
  const ProcessResult result = run_ranks(num_ranks, options, variables);
  INFO("records sent: " << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(content_of("z.bin") == content_of("expected.bin"));
  CHECK(other_names({"x.bin", "y.bin", "z.bin", "expected.bin", "report.json"}).empty());
}

}  // namespace

TEST_CASE("the whole battery on 2 to 7 ranks has the bytes of one process") {
  const std::vector<std::pair<int, std::uint32_t>> shapes = {{2, 4}, {3, 8}, {7, 1}, {4, 5}};
  for (std::size_t shape = 0; shape < shapes.size(); ++shape) {
    const MpiPlace place;
    const auto [num_ranks, m] = shapes[shape];
    ProductList products;
    for (std::size_t x = shape; x < battery().size(); x += shapes.size()) {
      const auto [a, b] = battery()[x].make(m, 1);
      const ProductList::How operands = products.add_operands(a, b);
      products.add(operands, {"records=read"});
      products.add(operands, {"records=sent"});
    }
    products.run(num_ranks);
  }
}

TEST_CASE("messages of at most 1 KB change nothing") {
  const MpiPlace place;
  place.set_operands(random_matrix(1024, 8, 2000, 65535, 5), random_matrix(1024, 8, 2000, 65535, 6));
  check_ranks(3, {}, {{"SPMM_MPI_MESSAGE_BYTES", "1024"}});
  // Records of 8 KB that no message holds whole.
  place.set_operands(random_matrix(640, 64, 30, 65535, 7), random_matrix(640, 64, 30, 65535, 8));
  check_ranks(4, {}, {{"SPMM_MPI_MESSAGE_BYTES", "1000"}});
}

TEST_CASE("rows of B that do not fit a rank at once come in steps") {
  const MpiPlace place;
  const auto [a, b] = operands_in_steps();
  place.set_operands(a, b);
  // So few rows and columns of C would be split by the inner dimension, in one step.
  check_ranks(7, {"--memory-limit", "9M", "--report", "report.json"}, {{"SPMM_MPI_DIVISION", "rows"}});
  const auto report = parse_report("report", content_of("report.json"));
  CHECK(report["steps"].get<int>() > 1);
}

TEST_CASE("a memory limit divides the product in rounds") {
  const MpiPlace place;
  place.set_operands(random_matrix(4096, 4, 20000, 65535, 21), random_matrix(4096, 4, 20000, 65535, 22));
  check_ranks(2, {"--memory-limit", "24M", "--report", "report.json"});
  const auto report = parse_report("report", content_of("report.json"));
  CHECK(report["rounds"].get<int>() > 1);
  CHECK(report["ranks"].size() == 2);
  CHECK(report["ranks"][0]["pairs"].get<std::uint64_t>() + report["ranks"][1]["pairs"].get<std::uint64_t>() ==
        report["pairs"].get<std::uint64_t>());
}

TEST_CASE("ranks share the pairs evenly, and fetch only the rows of B that they meet") {
  const MpiPlace place;
  // Block-diagonal operands: the rows of B that one half of A meets are of no use to the other.
  spmm::BlockMatrix a = random_matrix(2048, 4, 4000, 65535, 31);
  for (spmm::BlockIndex& at : a.index) at.j = at.i;
  std::sort(a.index.begin(), a.index.end());
  a.index.erase(std::unique(a.index.begin(), a.index.end()), a.index.end());
  a.values.resize(a.index.size() * 16);
  const spmm::BlockMatrix b = random_matrix(2048, 4, 20000, 65535, 32);
  place.set_operands(a, b);
  check_ranks(4, {"--report", "report.json"});
  const auto report = parse_report("report", content_of("report.json"));
  const auto pairs = report["pairs"].get<std::uint64_t>();
  std::uint64_t received = 0;
  for (const auto& rank : report["ranks"]) {
    CHECK(rank["pairs"].get<std::uint64_t>() < pairs / 4 + pairs / 20);
    received += rank["received_bytes"].get<std::uint64_t>();
  }
  CHECK(received <= (a.index.size() + b.index.size()) * 44);
}

TEST_CASE("an output beyond a page is the same where ranks share pages") {
  const MpiPlace place;
  // Some ranks get less than a page, some many.
  spmm::BlockMatrix a = random_matrix(320, 4, 200, 65535, 41);
  const spmm::BlockMatrix b = random_matrix(320, 4, 60, 65535, 42);
  place.set_operands(a, b);
  check_ranks(7, {});
  check_ranks(2, {});
}

TEST_CASE("--verify proves rows on every rank; the output may be a device") {
  const MpiPlace place;
  place.set_operands(random_matrix(1024, 4, 2000, 65535, 51), random_matrix(1024, 4, 2000, 65535, 52));
  check_ranks(2, {"--verify", "20", "--durable", "--report", "report.json"});
  CHECK(parse_report("report", content_of("report.json"))["verified_blocks"].get<std::uint64_t>() > 40);
  CHECK(run_ranks(2, {"-q", "--backend", "cpu", "x.bin", "y.bin", "/dev/null"}).exit_code == 0);
}

TEST_CASE("ranks of one machine read their records; the report says so") {
  const MpiPlace place;
  place.set_operands(random_matrix(1024, 4, 2000, 65535, 51), random_matrix(1024, 4, 2000, 65535, 52));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a file that was just changed is not trusted
  const auto run = [](const Variables& variables) {
    const auto result =
        run_ranks(3, {"-q", "--backend", "cpu", "--report", "report.json", "x.bin", "y.bin", "z.bin"}, variables);
    REQUIRE(result.exit_code == 0);
    return parse_report("report", content_of("report.json"));
  };
  const auto read = run({});
  const auto sent = run({{"SPMM_MPI_RECORDS", "sent"}});
  CHECK(read["records"] == "read");
  CHECK(sent["records"] == "sent");
  CHECK(read["c"] == sent["c"]);
  // The operands under other names on one rank: other files, though with the same bytes.
  std::filesystem::create_directory("others");
  for (const char* const name : {"x.bin", "y.bin"}) {
    std::filesystem::copy_file(name, std::string("others/") + name);
  }
  const std::string words =
      "cd $([ $OMPI_COMM_WORLD_RANK = 1 ] && echo others || echo .) && exec " + std::string(SPMM_BIN_DIR) +
      "/spmm-mpi -q --backend cpu --report $PWD/report.json x.bin y.bin " + std::filesystem::absolute("z.bin").string();
  std::vector<std::string> command = mpi_words(2, {});
  command.back() = "/bin/sh";
  command.insert(command.end(), {"-c", words});
  ProcessOptions patient;
  patient.timeout = kPatience;
  const ProcessResult apart = run_process(command, patient);
  INFO(apart.err);
  REQUIRE(apart.exit_code == 0);
  CHECK(parse_report("report", content_of("report.json"))["records"] == "sent");
  CHECK(content_of("z.bin") == content_of("expected.bin"));
}

TEST_CASE("a rank keeps its memory limit while pairs are counted") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const MpiPlace place;
  // As many rows as blocks, so that what is known of each row is most of what a rank holds.
  constexpr std::uint32_t kBlocks = 1'500'000;
  spmm::BlockMatrix a{.n = kBlocks, .m = 1, .index = {}, .values = std::vector<std::uint16_t>(kBlocks, 1)};
  for (std::uint32_t x = 0; x < kBlocks; ++x) a.index.push_back({.i = x, .j = (x * 7919) % kBlocks});
  place.set_operands(a, random_matrix(kBlocks, 1, 1000, 65535, 3));
  const auto peak = [](const std::vector<std::string>& options) {
    check_ranks(2, options);
    return parse_report("report", content_of("report.json"))["peak_host_bytes"].get<std::uint64_t>();
  };
  const std::uint64_t used = peak({"--memory-limit", "60M", "--report", "report.json"});
  const ProcessResult refused = run_ranks(2, {"--memory-limit", "50M", "--backend", "cpu", "x.bin", "y.bin", "z.bin"});
  CHECK(refused.exit_code == 71);
  CHECK(refused.err.find("counting the pairs takes 54 MB beside ") != std::string::npos);
  place.set_operands(random_matrix(64, 1, 60, 65535, 3), random_matrix(64, 1, 60, 65535, 4));
  CHECK(used < peak({"--report", "report.json"}) + 60'000'000);
#endif
}
