// Of builds that count lines: _exit() writes the counts first.
#include <sys/resource.h>

#include <atomic>

extern "C" {

void __gcov_dump();
[[noreturn]] void __real__exit(int code);
[[noreturn]] void __wrap__exit(int code);

void __wrap__exit(int code) {
  static std::atomic_flag is_writing;  // a signal handler may end the process meanwhile
  rlimit limit{};                      // of some tests' children: counts that are cut off spoil those of all others
  ::getrlimit(RLIMIT_FSIZE, &limit);
  if (limit.rlim_cur == RLIM_INFINITY && !is_writing.test_and_set()) __gcov_dump();
  __real__exit(code);
}

}  // extern "C"
