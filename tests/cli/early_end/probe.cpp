// Ends early as spmm does behind a GPU: probe FOLDER [stop] [PID_FILE]. FOLDER/driver, open and locked, is the file
// that takes long to close. With "stop" the process that holds it does not notice the end of this one until it gets
// SIGCONT.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "cli/program.hpp"
#include "tools/spmm/early_end.hpp"

namespace {

/// The only process that this one has started; 0 = there is none.
pid_t only_child() {
  const std::string self = std::to_string(::getpid());
  std::ifstream children("/proc/self/task/" + self + "/children");
  pid_t pid = 0;
  children >> pid;
  return pid;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string folder = std::filesystem::canonical(argv[1]).string();
  const int driver = ::open((folder + "/driver").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const int output = ::open((folder + "/output").c_str(), O_RDWR | O_CREAT, 0600);  // inherited if nobody prevents it
  if (driver < 0 || output < 0 || ::flock(driver, LOCK_EX | LOCK_NB) != 0) return 3;
  const std::string pid_file = argc > 3 ? argv[3] : "";
  std::ofstream pid_out(pid_file);
  if (!spmm::tools::leave_files(folder + "/driver")) return 4;
  if (argc > 2) ::kill(only_child(), SIGSTOP);
  pid_out << only_child() << std::flush;
  std::cout << "done" << std::endl;
  spmm::cli::end_process(0);
}
