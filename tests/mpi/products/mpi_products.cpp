// Runs a list of products on the ranks of one launch: a launch takes longer than a small product.
//   mpi-products LIST
// A line of the list is one product on the CPU, "key=value" words: a, b (files), expected (the file that the output
// must equal), limit (bytes), verify (full). With fault=KIND:RANK:N in place of expected it must fail with the words of
// that fault on that rank, and leave z.bin as it is. What is wrong is printed; exit code 1 then.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "cli/exit_codes.hpp"
#include "mpi/product.hpp"
#include "mpi/products/mpi_fault.hpp"
#include "support/files.hpp"
#include "support/wrapped_calls.hpp"

namespace {

using namespace spmm;
using test::bytes_of;

/// The words of a line.
struct Words {
  std::map<std::string, std::string> all;

  std::string operator[](const char* key) const {
    const auto at = all.find(key);
    return at == all.end() ? "" : at->second;
  }
};

constexpr const char* kOut = "z.bin";

mpi::RankFailure failure_of_rank() {
  const cli::Failure failure = cli::failure_of_current_exception();
  return {.code = failure.exit_code, .message = failure.message};
}

Words words_of(const std::string& line) {
  Words words;
  std::istringstream in(line);
  for (std::string word; in >> word;) {
    const std::size_t equal = word.find('=');
    words.all[word.substr(0, equal)] = word.substr(equal + 1);
  }
  return words;
}

void set_variable(const char* name, const std::string& value) {
  if (value.empty()) {
    ::unsetenv(name);
  } else {
    ::setenv(name, value.c_str(), 1);
  }
}

/// "" or what is wrong; asked on rank 0.
std::string complaint_about(const Words& words, const mpi::DistributedReport& report) {
  if (!words["fault"].empty()) return "succeeded in spite of the fault";
  if (report.whole.proof.is_proven != (words["verify"] == "full")) return "the result is not proven";
  if (bytes_of(kOut) != bytes_of(words["expected"])) return "the bytes differ";
  const std::uint64_t bytes = kHeaderBytes + report.whole.c_blocks * output_record_bytes(report.whole.c.m);
  return bytes_of(kOut).size() == bytes ? "" : "the report has another number of blocks";
}

std::string complaint_about(const Words& words, const mpi::AgreedFailure& failure, int num_ranks) {
  const std::string message = failure.what();
  const std::string fault = words["fault"];
  if (fault.empty()) return "failed: " + message;
  const std::string rank = fault.substr(fault.find(':') + 1, 1);
  const std::string place = "[rank " + rank + " of " + std::to_string(num_ranks) + " on ";
  const std::string error = fault.starts_with("enospc") ? "No space left on device" : "Input/output error";
  if (failure.code() != cli::kIoError) return "code " + std::to_string(failure.code());
  if (message.find(place) == message.npos || message.find(error) == message.npos) return "another failure: " + message;
  return bytes_of(kOut) == bytes_of("old.bin") ? "" : "the output has changed";
}

std::string run(const mpi::Communicator& ranks, const Words& words) {
  set_variable("SPMM_MPI_FAULT", words["fault"]);
  Options options;
  options.backend = Backend::cpu;
  if (!words["limit"].empty()) options.memory_limit_bytes = std::stoull(words["limit"]);
  options.verify_full = words["verify"] == "full";
  const test::SystemCalls before = test::system_calls;
  test::inject_fault(ranks.rank());
  std::string complaint;
  try {
    const mpi::DistributedReport report = mpi::multiply(ranks, failure_of_rank, words["a"], words["b"], kOut, options);
    if (ranks.rank() == 0) complaint = complaint_about(words, report);
  } catch (const mpi::AgreedFailure& failure) {
    complaint = complaint_about(words, failure, ranks.size());
  }
  test::system_calls = before;
  ranks.barrier();  // rank 0 has read what the next product replaces
  return complaint;
}

}  // namespace

int main(int argc, char** argv) {
  const mpi::Communicator ranks;
  std::ifstream list(argc == 2 ? argv[1] : "");
  int num_wrong = list ? 0 : 1;
  for (std::string line; std::getline(list, line);) {
    const std::string complaint = run(ranks, words_of(line));
    if (ranks.rank() != 0 || complaint.empty()) continue;
    ++num_wrong;
    std::cerr << "mpi-products: " + line + ": " + complaint + "\n" << std::flush;
  }
  return num_wrong == 0 ? 0 : 1;
}
