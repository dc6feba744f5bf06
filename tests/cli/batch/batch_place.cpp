// A folder with small operands and a list of jobs, and spmm-batch run inside it.
#include "cli/batch/batch_place.hpp"

#include <fstream>
#include <iterator>

#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/matrices.hpp"
#include "test_paths.hpp"

namespace spmm::test {

namespace fs = std::filesystem;

BatchPlace::BatchPlace(int num_operands, std::uint32_t n, std::uint32_t num_blocks) : num_operands_(num_operands) {
  for (int o = 1; o <= num_operands; ++o) {
    write_matrix(std::to_string(o) + ".bin", random_matrix(n, 4, num_blocks, 65535, static_cast<std::uint64_t>(o)));
  }
}

std::size_t BatchPlace::write_list(int times) {
  std::string list = "# A\tB\tOUT\n";
  Options options;
  options.backend = Backend::cpu;
  for (int a = 1; a <= num_operands_; ++a) {
    for (int b = 1; b <= num_operands_; ++b) {
      const std::string left = std::to_string(a) + ".bin";
      const std::string right = std::to_string(b) + ".bin";
      multiply(left, right, "single.bin", options);
      for (int t = 0; t < times; ++t) {
        const std::string out = "c" + std::to_string(a) + std::to_string(b) + "-" + std::to_string(t) + ".bin";
        expected_[out] = bytes_of("single.bin");
        list += left + "\t" + right + "\t" + out + "\n";
      }
    }
  }
  fs::remove("single.bin");
  write_bytes("jobs.tsv", list);
  return expected_.size();
}

std::vector<std::string> BatchPlace::wrong_outputs() const {
  std::vector<std::string> wrong;
  for (const auto& [name, content] : expected_) {
    if (bytes_of(name) != content) wrong.push_back(name);
  }
  return wrong;
}

std::vector<std::string> BatchPlace::unexpected_files() const {
  std::vector<std::string> unexpected_files;
  for (const std::string& name : names_in(".")) {
    const bool is_operand = name.size() <= 6 && name.ends_with(".bin") && name[0] >= '1' && name[0] <= '9';
    if (is_operand || expected_.contains(name) || name == "jobs.tsv" || name == "jobs.tsv.log") continue;
    unexpected_files.push_back(name);
  }
  return unexpected_files;
}

std::vector<std::string> batch_words(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SPMM_BIN_DIR "/spmm-batch");
  return arguments;
}

std::vector<std::string> faulty_batch_words(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SPMM_FAULTY_BIN_DIR "/spmm-batch");
  return arguments;
}

ProcessOptions with_fault(const std::string& fault) {
  return {.env = {{"SPMM_BATCH_FAULT", fault}}, .folder = {}};
}

ProcessResult run_batch(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  return run_process(batch_words(arguments), options);
}

ProcessResult run_batch_on(const std::string& text, const std::string& arguments) {
  write_bytes("feed.txt", text);
  ProcessResult result = run_process({"/bin/sh", "-c", "cat feed.txt | " SPMM_BIN_DIR "/spmm-batch " + arguments});
  fs::remove("feed.txt");
  return result;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::ifstream list("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  return {std::istream_iterator<pid_t>(list), {}};
}

}  // namespace spmm::test
