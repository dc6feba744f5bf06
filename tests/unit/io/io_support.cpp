#include "unit/io/io_support.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <new>
#include <stdexcept>

namespace spmm::test {
namespace fs = std::filesystem;

TempFolder::TempFolder() {
  std::string pattern = (fs::temp_directory_path() / "spmm-io-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = pattern;
  fs::permissions(path_, fs::perms::all);
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> TempFolder::names() const {
  return names_in(path_);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

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

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
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

namespace {
std::atomic<std::int64_t> live_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 2;
std::atomic<std::int64_t> left_before_failure{kNever};
std::atomic<bool> failure_lasts{false};

bool fails_now() {
  const std::int64_t left = left_before_failure--;
  return left == 0 || (left < 0 && failure_lasts);
}

void* counted_new(std::size_t size) {
  if (fails_now()) return nullptr;
  void* const at = std::malloc(size == 0 ? 1 : size);
  if (at == nullptr) return nullptr;
  const auto now = live_bytes += static_cast<std::int64_t>(::malloc_usable_size(at));
  auto peak = peak_bytes.load();
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now)) {
  }
  return at;
}

void counted_delete(void* at) {
  if (at == nullptr) return;
  live_bytes -= static_cast<std::int64_t>(::malloc_usable_size(at));
  std::free(at);
}
}  // namespace

std::uint64_t peak_allocation(const std::function<void()>& action) {
  const std::int64_t before = live_bytes;
  peak_bytes = before;
  action();
  return static_cast<std::uint64_t>(peak_bytes - before);
}

FailingAllocation::FailingAllocation(int countdown, bool lasting) {
  failure_lasts = lasting;
  left_before_failure = countdown;
}

FailingAllocation::~FailingAllocation() {
  left_before_failure = kNever;
}

}  // namespace spmm::test

// Counted allocation for the whole test program.
void* operator new(std::size_t size) {
  if (void* const at = spmm::test::counted_new(size)) return at;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) {
  return operator new(size);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return spmm::test::counted_new(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return spmm::test::counted_new(size);
}
void operator delete(void* at) noexcept {
  spmm::test::counted_delete(at);
}
void operator delete[](void* at) noexcept {
  spmm::test::counted_delete(at);
}
void operator delete(void* at, std::size_t) noexcept {
  spmm::test::counted_delete(at);
}
void operator delete[](void* at, std::size_t) noexcept {
  spmm::test::counted_delete(at);
}
void operator delete(void* at, const std::nothrow_t&) noexcept {
  spmm::test::counted_delete(at);
}
void operator delete[](void* at, const std::nothrow_t&) noexcept {
  spmm::test::counted_delete(at);
}
