#include "unit/io/io_support.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace spmm::test {
namespace fs = std::filesystem;

unsigned permissions_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw std::runtime_error("no " + path.string());
  return info.st_mode & 07777;
}

std::string header_bytes(std::uint32_t n, std::uint32_t m, std::uint32_t k) {
  return packed(n, m, k);
}

std::string result_records(std::uint32_t m, std::uint32_t count) {
  std::string bytes;
  for (std::uint32_t r = 0; r < count; ++r) bytes += record<std::uint32_t>(m, r / 100, r % 100, 1000u * r);
  return bytes;
}

bool names_place_and_hint(const std::string& message, const fs::path& file) {
  const std::size_t problem = message.find(": ", file.string().size());
  const std::size_t hint = message.rfind("; ");
  return message.starts_with(file.string()) && problem != std::string::npos && hint != std::string::npos &&
         hint > problem + 2 && hint + 10 < message.size();
}

std::string in_child(const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    std::string result;
    try {
      result = body();
    } catch (const std::exception& error) {
      result = std::string("exception: ") + error.what();
    }
    [[maybe_unused]] const ssize_t put = ::write(ends[1], result.data(), result.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string result;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 1; got > 0;) {
    got = ::read(ends[0], buffer.data(), buffer.size());
    if (got > 0) result.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return result;
}

void drop_rights() {
  constexpr unsigned kNobody = 65534;
  if (::geteuid() != 0) return;
  if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) throw std::runtime_error("cannot drop rights");
}

bool has_unnamed_files(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (fd >= 0) ::close(fd);
  return fd >= 0 && fs::exists("/proc/self/fd");
}

}  // namespace spmm::test
