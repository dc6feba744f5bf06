#include "mpi/mpi_place.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <thread>

#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

namespace spmm::test {
namespace {

namespace fs = std::filesystem;

/// "" for a process that has gone, also while it is read.
std::string content_of_process(const std::string& pid, const std::string& file) {
  try {
    return bytes_of("/proc/" + pid + "/" + file);
  } catch (const std::ios_base::failure&) {
    return "";
  }
}

}  // namespace

std::vector<std::string> mpi_words(int num_ranks, const std::vector<std::string>& arguments,
                                   const Variables& variables) {
  std::vector<std::string> words = {SPMM_MPIRUN,
                                    "--oversubscribe",
                                    "--bind-to",
                                    "none",
                                    "-n",
                                    std::to_string(num_ranks),
                                    variables.empty() ? SPMM_BIN_DIR "/spmm-mpi" : SPMM_MPI_FAULTY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

ProcessResult run_ranks(int num_ranks, const std::vector<std::string>& arguments, const Variables& variables) {
  ProcessOptions options;
  options.env = variables;
  options.timeout = kPatience;
  return run_process(mpi_words(num_ranks, arguments, variables), options);
}

ProductList::How ProductList::add_operands(const BlockMatrix& a, const BlockMatrix& b) {
  const std::string end = std::to_string(num_operands_++) + ".bin";
  write_matrix("x" + end, a);
  write_matrix("y" + end, b);
  Options options;
  options.backend = Backend::cpu;
  multiply("x" + end, "y" + end, "expected" + end, options);
  return {"a=x" + end, "b=y" + end, "expected=expected" + end};
}

void ProductList::add(const How& operands, const How& how) {
  for (const How* words : {&operands, &how}) {
    for (const std::string& word : *words) lines_ += word + " ";
  }
  lines_ += "\n";
}

void ProductList::run(int num_ranks, const Variables& variables) {
  write_bytes("list", std::exchange(lines_, ""));
  write_bytes("z.bin", kOld);
  const std::vector<std::string> before = names_in(".");
  ProcessOptions options;
  options.env = variables;
  options.timeout = kPatience;
  std::vector<std::string> words = mpi_words(num_ranks, {"list"});
  words[words.size() - 2] = SPMM_MPI_PRODUCTS;
  const ProcessResult result = run_process(words, options);
  INFO(num_ranks << " ranks: " << result.err);
  CHECK(result.exit_code == 0);
  CHECK(names_in(".") == before);
}

std::vector<std::string> own_messages(const std::string& err) {
  std::vector<std::string> lines;
  std::istringstream in(err);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("spmm-mpi:")) lines.push_back(line);
  }
  return lines;
}

void MpiPlace::set_operands(const BlockMatrix& a, const BlockMatrix& b) const {
  write_matrix("x.bin", a);
  write_matrix("y.bin", b);
  Options options;
  options.backend = Backend::cpu;
  multiply("x.bin", "y.bin", "expected.bin", options);
  fs::remove("z.bin");
}

std::vector<int> ranks_running(const std::string& out) {
  std::vector<int> found;
  std::error_code none;
  for (fs::directory_iterator at("/proc", none), end; !none && at != end; at.increment(none)) {
    const std::string name = at->path().filename().string();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) continue;
    const std::string words = content_of_process(name, "cmdline");
    const std::size_t first = words.find('\0');
    if (first == std::string::npos || !words.substr(0, first).ends_with("/spmm-mpi")) continue;
    if (words.ends_with(out + std::string(1, '\0'))) found.push_back(std::stoi(name));
  }
  std::sort(found.begin(), found.end());
  return found;
}

int wait_for_stopped(const std::string& out) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < end) {
    for (const int pid : ranks_running(out)) {
      const std::string status = content_of_process(std::to_string(pid), "stat");
      if (status.find(") T ") != std::string::npos) return pid;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return -1;
}

int rank_of(int pid) {
  constexpr const char* kName = "OMPI_COMM_WORLD_RANK=";
  std::istringstream variables(content_of_process(std::to_string(pid), "environ"));
  for (std::string entry; std::getline(variables, entry, '\0');) {
    if (entry.starts_with(kName)) return std::stoi(entry.substr(std::string(kName).size()));
  }
  return -1;
}

}  // namespace spmm::test
