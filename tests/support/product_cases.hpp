// Products with known results, sinks that get in the way, and what this process takes: for tests of the engine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <functional>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"
#include "support/matrices.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"

namespace spmm::test {

/// They do not reuse what has just been freed, and qemu keeps what it has translated: the resident set says nothing.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SPMM_TESTS_EMULATED)
inline constexpr bool kSanitizersKeepMemory = true;
#else
inline constexpr bool kSanitizersKeepMemory = false;
#endif

/// A product and what it must give.
struct ProductCase {
  BlockMatrix a;
  BlockMatrix b;
  std::string kernel;
  ProductMatrix expected;
};

inline ProductCase make_product_case(std::uint32_t m, std::uint32_t side, std::uint32_t blocks,
                                     const std::string& kernel) {
  ProductCase one{.a = random_matrix(side * m, m, blocks, 65535, m + side),
                  .b = random_matrix(side * m, m, blocks, 65535, m + side + 1),
                  .kernel = kernel,
                  .expected = {}};
  one.expected = oracle_multiply(one.a, one.b);
  return one;
}

/// All cases twice on one engine by several threads at once, each from another case on; options_of(thread, number,
/// case). What was wrong, of each thread.
template <class OptionsOf>
std::vector<std::string> wrong_at_once(Engine& engine, const std::vector<ProductCase>& cases,
                                       const OptionsOf& options_of) {
  constexpr unsigned kThreads = 8;
  std::vector<std::string> wrong(kThreads);
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t x = 0; x < 2 * cases.size(); ++x) {
        const ProductCase& one = cases[(x + t) % cases.size()];
        try {
          if (engine.multiply(one.a, one.b, options_of(t, x, one)) != one.expected) wrong[t] += " " + one.kernel;
        } catch (const std::exception& error) {
          wrong[t] += " " + one.kernel + ": " + error.what();
        }
      }
    });
  }
  for (std::jthread& thread : threads) thread.join();
  return wrong;
}

/// A number from /proc/self/status: "VmRSS" in kB, or "Threads".
inline std::uint64_t own_status(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    if (word != key + ":") continue;
    std::uint64_t value = 0;
    in >> value;
    return value;
  }
  return 0;
}

/// A sink that waits in its first write() until it is let go.
class GatedSink : public MemorySink {
 public:
  explicit GatedSink(const MatrixHeader& header) : MemorySink(header) {
    on_write = [this] {
      std::unique_lock lock(mutex_);
      reached_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_; });
    };
  }
  void wait_until_reached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  bool open_ = false;
};

/// A sink that keeps nothing and fails.
class DroppingSink : public Sink {
 public:
  explicit DroppingSink(bool no_memory = false) : no_memory_(no_memory) {}

  void write(std::uint64_t, std::span<const std::byte>, Release) override {
    if (no_memory_) throw std::bad_alloc();
    throw IoError("sink", "is broken", "-");
  }
  void finish(const MatrixHeader&) override {}
  void publish() override {}

 private:
  bool no_memory_;
};

}  // namespace spmm::test
