// Kernel, threads and memory limit change nothing in the output.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/json_schema.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;

/// The output of a run; fails the test where the run fails.
std::string output_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"-q", "x.bin", "y.bin", "z.bin"});
  const ProcessResult result = spmm_command(arguments);
  INFO(result.err);
  REQUIRE(result.exit_code == kOk);
  return bytes_of("z.bin");
}

}  // namespace

TEST_CASE("every CPU kernel on several block sizes equals the oracle") {
  const Workplace workplace;
  for (const std::uint32_t m : {1u, 2u, 3u, 4u, 7u, 8u, 16u, 32u, 33u, 64u}) {
    const spmm::BlockMatrix a = random_matrix(12 * m, m, 50, 65535, m);
    const spmm::BlockMatrix b = random_matrix(12 * m, m, 60, 65535, m + 100);
    spmm::write_matrix("x.bin", a);
    spmm::write_matrix("y.bin", b);
    spmm::write_product("expected.bin", oracle_multiply(a, b));
    for (const spmm::KernelInfo& kernel : spmm::kernel_names()) {
      if (kernel.backend != spmm::Backend::cpu) continue;
      INFO("m " << m << ", kernel " << kernel.name);
      CHECK(output_of({"--kernel", kernel.name}) == bytes_of("expected.bin"));
    }
  }
}

TEST_CASE("any number of threads gives the same bytes") {
  const Workplace workplace;
  spmm::write_matrix("x.bin", random_matrix(1024, 4, 4000, 65535, 11));
  spmm::write_matrix("y.bin", random_matrix(1024, 4, 4000, 65535, 12));
  const std::string one = output_of({"--backend", "cpu", "--threads", "1"});
  CHECK(one.size() > 12);
  CHECK(output_of({"--backend", "cpu", "--threads", "2"}) == one);
  CHECK(output_of({"--backend", "cpu", "--threads", "7"}) == one);
}

TEST_CASE("a result larger than the memory limit has the same bytes, in fewer or smaller panels") {
  const Workplace workplace;
  spmm::write_matrix("x.bin", random_matrix(4096, 4, 20000, 65535, 21));
  spmm::write_matrix("y.bin", random_matrix(4096, 4, 20000, 65535, 22));
  const std::string without = output_of({"--backend", "cpu", "--threads", "2", "--report", "without.json"});
  const std::string limit = std::to_string(without.size() / 2);
  const std::string with =
      output_of({"--backend", "cpu", "--threads", "2", "--memory-limit", limit, "--report", "with.json"});
  CHECK(without == with);
  const auto report = parse_report("report", bytes_of("with.json"));
  CHECK(report["plan"]["host_need_bytes"].get<std::uint64_t>() <= without.size() / 2);
  CHECK(report["panels"].get<std::uint64_t>() > 1);
  const auto bytes_of_buffers = [](const auto& of_run) {
    return of_run["plan"]["panel_bytes"].template get<std::uint64_t>() *
           of_run["plan"]["buffers"].template get<std::uint64_t>();
  };
  CHECK(bytes_of_buffers(report) < bytes_of_buffers(parse_report("report", bytes_of("without.json"))));
}
